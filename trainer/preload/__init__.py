"""What a run imports, to be imported ahead of it: nothing here does anything else, or initialises CUDA.

A process that has imported one of these modules can be forked for each run, which then starts in a tenth of a second.
"""
