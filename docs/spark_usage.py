"""Usage by day and user, from a lake, with Spark: `spark-submit spark_usage.py LAKE [--json]`.

LAKE is a path or URL that Spark can read: `/srv/lake`, `file:///srv/lake`, `s3a://bucket/lake`. No package for Delta
tables is needed: the files of a table are those that its own log names. A file is added once and removed once, so those
that are there are the ones added and not removed, whatever the order.
"""

from __future__ import annotations

import json
import sys
from typing import Any
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f


def main() -> None:
    """Print the sums."""
    lake, *options = sys.argv[1:]
    spark = SparkSession.builder.appName("unspool usage").config("spark.sql.session.timeZone", "UTC").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    rows = [row.asDict() for row in usage(once(table(spark, lake, "responses"))).collect()]
    if "--json" in options:
        print(json.dumps(rows, default=str))
    else:
        for row in rows:
            print(f"{row['day']}  {row['user']:<20} {row['responses']:>8,} {row['cost_micros'] / 1e6:>12,.2f} $")
    spark.stop()


def once(responses: DataFrame) -> DataFrame:
    """Return each response of an organisation once, also if its file was copied to another machine: `org_responses`."""
    inputs = ("input_tokens", "cache_read_tokens", "cache_write_5m_tokens", "cache_write_1h_tokens")
    total = sum((f.col(name) for name in inputs[1:]), f.col(inputs[0]))
    copies = Window.partitionBy("org", "response_id").orderBy(
        f.col("output_tokens").desc(),
        f.col("is_sidechain").asc_nulls_last(),
        total.desc(),
        f.col("time").asc_nulls_last(),
        f.col("device"),
        f.col("source_id"),
    )
    return responses.withColumn("copy", f.row_number().over(copies)).filter("copy = 1").drop("copy")


def usage(responses: DataFrame) -> DataFrame:
    """Return what was billed, by day and user."""
    return (
        responses.groupBy("day", "org", "user")
        .agg(
            f.count("*").alias("responses"),
            *(f.sum(name).alias(name) for name in ("input_tokens", "output_tokens", "cache_read_tokens")),
            f.sum(f.col("cache_write_5m_tokens") + f.col("cache_write_1h_tokens")).alias("cache_write_tokens"),
            f.sum("cost_micros").alias("cost_micros"),
        )
        .orderBy("day", "org", "user")
    )


def table(spark: SparkSession, lake: str, name: str) -> DataFrame:
    """Return a table of the lake."""
    place = f"{lake.rstrip('/')}/{name}"
    files = [f"{place}/{unquote(path)}" for path in paths(spark, place)]
    return spark.read.option("basePath", place).parquet(*files)


def paths(spark: SparkSession, place: str) -> list[str]:
    """Return the files of a table, as its log names them."""
    log = f"{place}/_delta_log"
    added: set[str] = set()
    removed: set[str] = set()
    for row in spark.read.text(f"{log}/*.json").collect():
        action = json.loads(row.value)
        added |= {action["add"]["path"]} if action.get("add") else set()
        removed |= {action["remove"]["path"]} if action.get("remove") else set()
    if (version := _checkpoint(spark, f"{log}/_last_checkpoint")) is not None:
        state = spark.read.parquet(f"{log}/{version:020d}.checkpoint.parquet")
        added |= {row[0] for row in state.where("add IS NOT NULL").select("add.path").collect()}
    return sorted(added - removed)


def _checkpoint(spark: SparkSession, file: str) -> int | None:
    """Return the version of the last checkpoint; commits before it may be gone."""
    context: Any = spark.sparkContext
    path = context._jvm.org.apache.hadoop.fs.Path(file)
    if not path.getFileSystem(context._jsc.hadoopConfiguration()).exists(path):
        return None
    return int(json.loads("".join(row.value for row in spark.read.text(file).collect()))["version"])


if __name__ == "__main__":
    main()
