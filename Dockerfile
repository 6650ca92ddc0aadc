# Driver and executors on GPUs: Spark's own entry point and JVM, vLLM for CUDA, this package; runs as user 185.
#   docker build -t REGISTRY/spark-extract:0.1.0 .
FROM apache/spark:4.3.0-scala2.13-java17-ubuntu AS spark

FROM python:3.12.11-slim-bookworm
# gcc: Triton compiles launchers when a model loads. Debian drops old versions; the base image pins the release.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends gcc libc6-dev procps tini \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 185 spark \
    && useradd --uid 185 --gid 185 --create-home spark
COPY --from=spark /opt/java/openjdk /opt/java/openjdk
COPY --from=spark /opt/spark /opt/spark
COPY --from=spark /opt/entrypoint.sh /opt/entrypoint.sh
ENV JAVA_HOME=/opt/java/openjdk SPARK_HOME=/opt/spark PATH=/opt/spark/bin:/opt/java/openjdk/bin:$PATH \
    PYSPARK_PYTHON=/usr/local/bin/python3 PYSPARK_DRIVER_PYTHON=/usr/local/bin/python3 \
    PYTHONUNBUFFERED=1 HF_HOME=/home/spark/models VLLM_NO_USAGE_STATS=1

WORKDIR /opt/extract
COPY requirements.lock ./
# what the engine does not pin comes from the lock; the engine brings its own torch
RUN pip install --no-cache-dir vllm==0.32.0 xgrammar==0.2.8 \
    && grep -E '^(pyspark|py4j|pydantic|click|jsonschema[-_]rs|pandas|PyYAML|pypdf|python-docx|inscriptis|lxml)==' -i \
       requirements.lock > spark.lock \
    && pip install --no-cache-dir -r spark.lock
COPY pyproject.toml README.md LICENSE MANIFEST.in ./
COPY pipeline pipeline
COPY jobs jobs
COPY schemas schemas
RUN pip install --no-cache-dir --no-deps .
USER 185
ENTRYPOINT ["/opt/entrypoint.sh"]
