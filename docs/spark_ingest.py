"""Ingest segments into a lake with Spark: `spark-submit spark_ingest.py SEGMENTS LAKE`.

Both are paths or URLs as `unspool lake ingest` takes them: `s3://bucket/in s3://bucket/lake`. Driver and executors need
unspool with its extras `sql` and `team`. In a notebook, the call of `ingest_with_spark` is all.
"""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

from unspool.collect.lake import IngestJob, ingest_with_spark


def main() -> None:
    """Ingest everything that is new."""
    source, lake = sys.argv[1:]
    spark = SparkSession.builder.appName("unspool lake ingest").getOrCreate()
    report = ingest_with_spark(spark.sparkContext, IngestJob(source, lake, memory=2 << 30), os.environ)
    print(f"{report.lines:,} lines of {report.segments:,} segments, {len(report.bad):,} bad objects")
    spark.stop()


if __name__ == "__main__":
    main()
