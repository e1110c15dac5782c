// Package limit holds the bounds on tasks that are under way, start, or run: how many of a job or
// with a key ([Concurrency]), how often ([Rate]), how many or how long per day ([Budget]), how many
// per node ([PerNode]). Each bound has a counter ([Counter]) whose name all tasks that share it can
// compute. Each counter lies in one scope ([Scope]), whose admissions have their own chain. Package
// quota decides which tasks are admitted.
//
// A breaker holds back the tasks of a job while the job fails. The package has the settings of a
// breaker ([Breaker]), its state as the sum of facts ([Circuit]), and the rule by which ends of
// attempts change that state ([Outcomes]). It records nothing itself.
package limit
