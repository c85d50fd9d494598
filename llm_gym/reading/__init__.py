"""From a reply to one legal move, or to a refusal: ``markup``, then ``answer``, then ``moves``."""
