"""Tables to integers and back: schema, sources and sinks, the private profile, null handling and the codec.

No torch and no dagster. What reads rows here is either charged (`profile`), or returns restricted data.
"""

from dp_synth_pipeline.tabular import kinds as kinds  # registers every kind before any module looks one up
