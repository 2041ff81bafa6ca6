"""How long to wait before trying again what has failed."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Backoff:
    """Waits that double from the first to the most."""

    first_s: float
    most_s: float

    def wait_s(self, failures: int) -> float:
        """The wait after this many failures in a row; none after none."""
        if failures <= 0:
            return 0.0
        doublings = min(failures - 1, 63)  # a float holds no more than about a thousand; the bound comes long before
        return min(self.most_s, self.first_s * 2.0**doublings)
