def run(trial): pass
