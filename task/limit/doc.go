// Package limit holds what may bound the tasks that are under way, that start, or that run in all: how
// many of a job or with a key ([Concurrency]), how often ([Rate]), how many or how long in a day
// ([Budget]), how many on one node ([PerNode]). Each is declared once, has a counter by whose name all
// tasks find it that share it ([Counter]), and lies in one scope, whose admissions have a chain of their
// own ([Scope]). Whom they admit says package quota.
package limit
