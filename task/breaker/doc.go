// Package breaker holds the tasks of a job back while the job fails: what a job says about it
// ([Breaker]), how its breaker stands by the facts about it ([Circuit]), and what follows from how
// attempts end ([Outcomes]).
package breaker
