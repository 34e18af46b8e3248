"""Files of models: DyNet's text format and pairs, and safetensors."""
