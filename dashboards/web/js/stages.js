// A job in stages, seen through one of them: its trials, its objective, its part of the space.

/** The job as the stage of this name has it; a job without stages as it is. */
export function jobInStage(job, name) {
  const stage = job.stages?.find((one) => one.name === name);
  if (!stage || name === job.stage) return job;
  const { objective, steps, best_trial, best_value } = stage;
  return { ...job, objective, steps, best_trial, best_value, objectives: [objective], front: [], default_value: null };
}

/** The part of a job's space that the stage of this name follows. */
export function spaceInStage(document, name) {
  const own = document?.stages?.find?.((one) => one?.name === name);
  return own ? { ...document, ...own } : document;
}
