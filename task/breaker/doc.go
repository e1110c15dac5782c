// Package breaker holds back the tasks of a job while the job fails. It has the settings of a
// breaker ([Breaker]), its state as the sum of facts ([Circuit]), and the rule by which ends of
// attempts change that state ([Outcomes]). It records nothing itself.
package breaker
