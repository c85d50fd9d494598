"""ConnectFour: four in a row. Start reading at ``env``."""
