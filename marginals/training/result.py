"""What a fit returns, and how it fails."""

from dataclasses import dataclass


class FitError(RuntimeError):
    """The loss became NaN or infinite; the model holds the last good weights."""


@dataclass(frozen=True)
class Record:
    """One evaluation: mean negative log-likelihoods in nats per row.

    Args:
        step: the number of training steps so far.
        epoch: passes over the rows so far.
        train_loss: the loss on training rows since the last record.
        validation_loss: the loss on held-out rows.
        learning_rate: the learning rate.
        seconds: the time since the start of the fit.
    """

    step: int
    epoch: float
    train_loss: float
    validation_loss: float
    learning_rate: float
    seconds: float


@dataclass(frozen=True)
class FitResult:
    """The history of a fit; the model itself holds the best weights.

    Args:
        history: One record per evaluation.
        best_step: Step whose weights the model keeps.
        best_loss: Validation loss of these weights (training loss if no rows were held out).
        stopped: Why the fit ended: "plateau", "max_steps" or "max_seconds".
        seconds: Total time, including time before a resume.
        resumed: Whether the fit resumed from a checkpoint.
    """

    history: tuple[Record, ...]
    best_step: int
    best_loss: float
    stopped: str
    seconds: float
    resumed: bool = False

    @property
    def steps(self) -> int:
        """The number of completed steps."""
        return self.history[-1].step if self.history else 0
