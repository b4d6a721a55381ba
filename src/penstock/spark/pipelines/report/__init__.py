"""The HTML report of `analyse`: figures in, one self-contained page out."""

from penstock.spark.pipelines.report.html_page import render
from penstock.spark.pipelines.report.report_model import Report

__all__ = ["Report", "render"]
