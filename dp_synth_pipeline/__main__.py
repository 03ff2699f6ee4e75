"""`dp-synth`, and `python -m dp_synth_pipeline`."""

from __future__ import annotations


def main() -> None:
    """Run the command line; Ctrl-C while it is still being imported ends it without a word, as later."""
    try:
        from dp_synth_pipeline import cli
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    cli.main()


if __name__ == "__main__":
    main()
