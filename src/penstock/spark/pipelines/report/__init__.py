"""The HTML report of `analyse`: figures in, one self-contained page out."""

from penstock.spark.pipelines.report.model import Report
from penstock.spark.pipelines.report.page import render

__all__ = ["Report", "render"]
