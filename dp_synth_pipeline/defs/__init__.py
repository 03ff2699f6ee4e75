"""The tables of this project, one folder each; copy one to add your own."""
