"""The origin of starting weights: data that are declared public.

A guarantee holds for any starting weights that do not depend on private data, so a public phase costs nothing. hush
cannot check that the data are public, so you state why they are, and the statement becomes an assumption of the
guarantee.
"""

from __future__ import annotations

from dataclasses import dataclass

from hush.errors import InvalidArgument, check_count, check_instance


@dataclass(frozen=True, slots=True)
class PublicPhase:
    """The origin of starting weights: which public data they were trained on.

    `pretrain` returns one. For weights from elsewhere, write one yourself, and pass it to
    ``privatize(..., starts_from=...)``.

    Attributes:
        public: Your statement of which data it was and why it is public; hush cannot check it.
        num_steps: The number of steps that were taken, if known.

    >>> PublicPhase("ImageNet, from torchvision").assumption
    'the starting weights depend on no private data, only on data declared public: ImageNet, from torchvision'
    """

    public: str
    num_steps: int | None = None

    def __post_init__(self) -> None:
        """Require a reason."""
        check_instance("public", self.public, str, "Say which data it is, and why it is public")
        if not self.public.strip():
            raise InvalidArgument("public", self.public, "words: which data it is, and why it is public")
        if self.num_steps is not None:
            check_count("num_steps", self.num_steps, minimum=0)

    @property
    def assumption(self) -> str:
        """The assumption that the phase adds to a guarantee."""
        return f"the starting weights depend on no private data, only on data declared public: {self.public}"
