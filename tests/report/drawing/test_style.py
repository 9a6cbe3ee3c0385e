"""Text is readable in light and dark mode."""

from __future__ import annotations


def test_text_can_be_read_in_both_modes() -> None:
    """WCAG 2.1, 1.4.3: a contrast of 4.5 between text and paper; plots need 3 (1.4.11)."""
    from hush.report.drawing.style import STYLE

    def colours(block: str) -> dict[str, str]:
        declarations = [line.split(":", 1) for line in block.replace("\n", " ").split(";") if "--" in line]
        return {key.strip().removeprefix(":root { color-scheme"): value.strip() for key, value in declarations}

    def light(colour: str) -> float:
        digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
        parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    def contrast(one: str, other: str) -> float:
        low, high = sorted((light(one), light(other)))
        return (high + 0.05) / (low + 0.05)

    blocks = [block.split("}")[0].split("{")[-1] for block in STYLE.split(":root")[1:]]
    assert len(blocks) == 3
    for block in blocks:
        found = colours(block)
        for text in ("--ink", "--soft"):
            assert min(contrast(found[text], found["--paper"]), contrast(found[text], found["--wash"])) > 4.5
        for mark in ("--s0", "--s1", "--s2", "--alarm"):
            assert contrast(found[mark], found["--paper"]) > 3
