"""The message id mapper through the public interface."""
