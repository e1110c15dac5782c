// Package worker runs tasks: it pulls offers, claims them, runs the tasks and reports how they
// ended.
//
//	w, err := worker.New(worker.Ports{Log: s, Offers: s, Nodes: s, Outputs: s}, worker.Config{Queues: []string{"images"}})
//	…
//	w.Handle("resize", func(ctx context.Context, t task.Task) error { … })
//	err = w.Run(ctx)
//
// A task may run more than once, when a node is lost or cannot be reached; the log accepts only one
// result. A handler that acts on the outside should pass on the epoch of its task
// ([task.Task.Epoch]), which only grows, so that the other side can refuse a late attempt.
//
// The rules are in package task. Package worker/process runs child processes; this package knows it
// only as a [Runner].
package worker
