package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"millrace/events/jet"
	"millrace/events/jet/embed"
	"millrace/events/jet/streams"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/output"
	"millrace/worker"
)

// A program brings its own server, serves a queue with a function, submits a task for it and waits
// for its result. To use an installation, it leaves the server out: [client.Connect] finds it by
// NATS_URL.
func Example() {
	if err := resizeOne(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output: finished after attempt 1: {"pixels":307200}
}

func resizeOne(ctx context.Context) (err error) {
	url, stop, err := serve(ctx)
	if err != nil {
		return err
	}
	defer stop()
	c, err := client.Connect(ctx, client.Options{Server: url})
	if err != nil {
		return err
	}
	defer c.Close()

	// The worker and its running tasks end before the connection does.
	working, end := context.WithCancel(ctx)
	ended := make(chan error, 1)
	s := c.Store()
	w, err := worker.New(worker.Ports{Log: s, Offers: s, Nodes: s, Outputs: s}, worker.Config{Node: "example", Queues: []string{"images"}, Slots: 4})
	if err != nil {
		end()
		return err
	}
	w.Handle("resize", resize)
	go func() { ended <- w.Run(working) }()
	defer func() {
		end()
		err = errors.Join(err, <-ended)
	}()

	receipt, err := c.Submit(ctx, birth.Submission{
		Spec:   &job.Spec{Handler: "resize", Retry: job.Retry{Max: 3}},
		Queue:  "images",
		Params: map[string]json.RawMessage{"file": json.RawMessage(`"mill.png"`), "width": json.RawMessage(`640`)},
	})
	if err != nil {
		return err
	}
	t, err := c.Wait(ctx, receipt.ID)
	if err != nil {
		return err
	}
	fmt.Printf("%s after attempt %d: %s\n", t.State, t.Attempt, t.Result)
	return nil
}

// resize does the work of a task. An error is a failure, after which the task is retried as its
// retry policy says; ctx ends when the task is cancelled or out of time.
func resize(ctx context.Context, t task.Task) error {
	var p struct {
		File  string `json:"file"`
		Width int    `json:"width"`
	}
	if err := json.Unmarshal(t.Params, &p); err != nil {
		return worker.Final(fmt.Errorf("parameters: %w", err)) // no retry makes them better
	}
	attempt := worker.FromContext(ctx)
	attempt.Output.Line(output.Stdout, "resizing "+p.File)
	attempt.Output.SetResult(json.RawMessage(fmt.Sprintf(`{"pixels":%d}`, p.Width*p.Width*3/4)))
	return nil
}

// serve starts a server in a temporary directory and returns its URL.
func serve(ctx context.Context) (url string, end func(), err error) {
	dir, err := os.MkdirTemp("", "millrace-example-")
	if err != nil {
		return "", nil, err
	}
	server, err := embed.Start(embed.Config{Dir: dir})
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	end = func() {
		server.Stop()
		_ = os.RemoveAll(dir)
	}
	nc, err := server.Connect()
	if err == nil {
		_, err = jet.Open(ctx, nc, streams.Layout{}) // makes the log
		nc.Close()
	}
	if err != nil {
		end()
		return "", nil, err
	}
	return server.URL(), end, nil
}
