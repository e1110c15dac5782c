package examples

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"millrace/events/jet"
	"millrace/events/jet/embed"
	"millrace/events/jet/streams"
	"millrace/internal/cli/connect"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/jobfile"
	"millrace/task/output"
	"millrace/task/value"
	"millrace/worker"
)

// mix is what a permanent demo has beside the crawl: jobs of all kinds, some of which fail, and a
// node that comes and goes.
type mix struct {
	*connect.App
	server *embed.Server
	client *client.Client
	data   string
}

// calendars are the calendars by which the jobs go.
//
//go:embed calendars.yaml
var calendars []byte

// jobs are the jobs of which the mix makes its tasks.
//
//go:embed jobs.yaml
var jobs []byte

// mixed are the tasks of the mix.
var mixed = []birth.Submission{
	{Job: "release"},
	{Job: "release", Params: map[string]json.RawMessage{"sites": json.RawMessage(`["eu","us"]`)}},
	{Job: "publish"},
	{Job: "import"},
	{Job: "import", Params: map[string]json.RawMessage{"partner": json.RawMessage(`"globex"`)}, Labels: map[string]string{"env": "stage"}},
	{Job: "sync"},
	{Job: "encode"},
	{Job: "encode", Params: map[string]json.RawMessage{"film": json.RawMessage(`"The Race"`)}, Priority: 8},
	{Job: "mail"}, {Job: "mail"}, {Job: "mail"},
	{Job: "report", Delay: value.Duration(time.Hour)},
}

// prepare stores the jobs, and makes their tasks and those of the past ticks of their schedules.
func (m *mix) prepare(ctx context.Context) error {
	hours, err := jobfile.ParseCalendars("examples/calendars.yaml", calendars)
	if err != nil {
		return err
	}
	for _, calendar := range hours {
		if _, _, err := m.client.ApplyCalendar(ctx, calendar); err != nil {
			return err
		}
	}
	all, err := jobfile.Parse("examples/jobs.yaml", jobs)
	if err != nil {
		return err
	}
	if _, err := m.client.PauseQueue(ctx, "mail", 0, "the mail server moves"); err != nil {
		return err
	}
	for _, job := range all {
		if _, _, err := m.client.Apply(ctx, job); err != nil {
			return err
		}
	}
	if err := m.client.SubmitAll(ctx, mixed, nil); err != nil {
		return err
	}
	for name, from := range map[string]time.Duration{"backup": 7 * 24 * time.Hour, "report": 8 * time.Hour} {
		if err := m.backfill(ctx, name, m.Now().Add(-from)); err != nil {
			return err
		}
	}
	return nil
}

// backfill makes the tasks of the ticks of a schedule from a time until now.
func (m *mix) backfill(ctx context.Context, name string, from time.Time) error {
	stored, err := m.client.Schedule(ctx, name)
	if err != nil {
		return err
	}
	ticks, _, err := stored.Passed(from, m.Now(), m.Now(), 100)
	if err != nil {
		return err
	}
	_, err = m.client.RunTicks(ctx, name, ticks, func(client.BackfilledTick, uint64) {})
	return err
}

// How long the node of the mix is up, and away.
const (
	nodeStays = 40 * time.Second
	nodeAway  = 20 * time.Second
)

// run makes the node of the mix come and go, until ctx ends.
func (m *mix) run(ctx context.Context) error {
	for {
		if err := m.client.SubmitMany(ctx, birth.Submission{Job: "thumbnail"}, 4, nil); err != nil {
			return err
		}
		if err := m.node(ctx, nodeStays); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(nodeAway):
		}
	}
}

// node is a worker with a connection of its own, which is cut after a while, as when a cable is
// pulled.
func (m *mix) node(ctx context.Context, stays time.Duration) error {
	nc, err := m.server.Connect(jet.Resilient("millrace demo camera", m.Logger())...)
	if err != nil {
		return err
	}
	defer nc.Close()
	store, err := jet.Open(ctx, nc, streams.Layout{}, jet.WithClock(m.Clock))
	if err != nil {
		return err
	}
	defer store.Close()
	w, err := worker.New(worker.Ports{Log: store, Offers: store, Nodes: store, Outputs: store}, worker.Config{
		Node: "camera", Queues: []string{"images"}, Slots: 2, Labels: map[string]string{"site": "roof"},
		Beat: time.Second, NodeTTL: 3 * time.Second, Grace: time.Second, Spool: filepath.Join(m.data, "camera"),
	})
	if err != nil {
		return err
	}
	w.Handle("thumbnail", thumbnail)
	working, stop := context.WithCancel(ctx)
	defer stop()
	cut := time.AfterFunc(stays, func() {
		nc.Close()
		stop()
	})
	defer cut.Stop()
	err = w.Run(working)
	if ctx.Err() == nil && working.Err() != nil {
		return nil // its error about the cut does not matter
	}
	return err
}

// thumbnail is the handler of the node of the mix.
func thumbnail(ctx context.Context, _ task.Task) error {
	attempt := worker.FromContext(ctx)
	const steps = 12
	for i := range steps {
		attempt.Output.Line(output.Stdout, fmt.Sprintf("row %d of %d", i+1, steps))
		attempt.Output.Progress(float64(i+1)/steps, "")
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
	attempt.Output.SetResult(json.RawMessage(`{"width":160,"height":120}`))
	return nil
}
