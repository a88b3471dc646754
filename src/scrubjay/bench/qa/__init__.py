"""The answering benchmark: build a memory, answer, judge, score; each step a file of a run's folder.

    runs/<system>-<dataset>-<hash>/
      run.json         what the run is: data and its sha256, system, settings, models, prompts by hash; and which questions
      prompts/NAME.md  the prompts themselves
      starts.jsonl     a line a start: when, and with which versions of which packages
      questions.jsonl  a line a question chosen: its gold answer and evidence, and how it is judged; the denominator
      memories/NAME/   what a system keeps of a conversation; NAME is the conversation's
      calls.jsonl      a line a reply of a model, as it came, with its cost; written before the reply is used
      build.jsonl      a line a conversation: its memory is built, and what that took
      answers.jsonl    a line a question: the answer, the turns it cites and the turns that were shown
      verdicts.jsonl   a line a question and gold answer: each vote of the judge, as it came
      scores.jsonl     a line a question: its measures
      report.json      all measures with intervals; report.md the same as tables

Lines are the classes of `lines`. What is appended is on disk before anything goes on, so that a run may be killed at any
moment and started again: steps that have their line are not done again, and a call whose reply is in calls.jsonl is not
made again. `steps.run_steps` does the steps; a system is a module of `systems`.
"""
