package outputs

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"millrace/events/jet/names"
	"millrace/events/jet/request"
	"millrace/task"
	"millrace/task/output"
	"millrace/task/value"
)

// How long the reports of a task are kept after the last one.
const (
	liveTTL       = 7 * 24 * time.Hour
	checkpointTTL = 30 * 24 * time.Hour
)

// SaveLive stores an attempt's progress, and replaces what was stored before.
func (o *Outputs) SaveLive(ctx context.Context, l output.Live) error {
	body, err := value.JSON(l)
	if err != nil {
		return err
	}
	_, err = o.Pub.Publish(ctx, &nats.Msg{Subject: names.LivePrefix + string(l.Task), Data: body, Header: request.TTL(liveTTL)})
	return err
}

// SaveCheckpoint replaces a task's checkpoint. The error wraps [task.ErrFenced] if the stored one
// is from a later attempt.
func (o *Outputs) SaveCheckpoint(ctx context.Context, c output.Checkpoint) error {
	body, err := value.JSON(c)
	if err != nil {
		return err
	}
	chain := o.Value(names.StateStream, names.CheckpointPrefix+string(c.Task))
	read := chain.Read
	chain.Read = func(ctx context.Context, wrote *nats.Msg) (there *request.Message, end uint64, mine bool, err error) {
		// A server process is about to make the stream again.
		_, err = o.Patient(ctx, func() (uint64, error) {
			there, end, mine, err = read(ctx, wrote)
			return 0, err
		})
		return there, end, mine, err
	}
	_, err = chain.Decide(ctx, func(there *request.Message) (*nats.Msg, bool, error) {
		if before := checkpointIn(there, c.Task); there != nil && !c.Follows(&before) {
			return nil, false, task.ErrFenced
		}
		return &nats.Msg{Subject: names.CheckpointPrefix + string(c.Task), Data: body, Header: request.TTL(checkpointTTL)}, true, nil
	})
	if err != nil {
		return fmt.Errorf("checkpoint of task %s: %w", c.Task, err)
	}
	return nil
}

// Checkpoint returns the latest checkpoint of a task, from the stream's leader. Its epoch is 0 if
// there is none.
//
// While the stream does not exist Checkpoint waits, until ctx ends: a server process makes it
// again.
func (o *Outputs) Checkpoint(ctx context.Context, id task.ID) (output.Checkpoint, error) {
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		there, _, _, err := o.Value(names.StateStream, names.CheckpointPrefix+string(id)).Read(ctx, nil)
		c := checkpointIn(there, id)
		switch {
		case err == nil:
			return c, nil
		case !request.Says(err, request.CodeNoSuchStream):
			return c, fmt.Errorf("checkpoint of task %s: %w", id, err)
		}
		select {
		case <-ctx.Done():
			return c, fmt.Errorf("checkpoint of task %s: %w", id, err)
		case <-time.After(pause):
		}
	}
}

// checkpointIn decodes a checkpoint; a foreign message counts as none, and the next checkpoint
// replaces it.
func checkpointIn(m *request.Message, id task.ID) (c output.Checkpoint) {
	if m == nil || json.Unmarshal(m.Data, &c) != nil || c.Task != id {
		return output.Checkpoint{}
	}
	return c
}

// Live returns the progress that a task last reported; its epoch is 0 if it never did.
func (o *Outputs) Live(ctx context.Context, id task.ID) (output.Live, error) {
	m, found, err := o.LeaderGetFrom(ctx, names.StateStream, map[string]any{"last_by_subj": names.LivePrefix + string(id)})
	if err != nil {
		return output.Live{}, fmt.Errorf("standing of task %s: %w", id, err)
	}
	var l output.Live
	if !found || json.Unmarshal(m.Data, &l) != nil || l.Task != id {
		return output.Live{}, nil
	}
	return l, nil
}

// LiveAll returns the progress that tasks last reported, from any replica; tasks without a report
// are missing.
func (o *Outputs) LiveAll(ctx context.Context, ids []task.ID) (map[task.ID]output.Live, error) {
	all := map[task.ID]output.Live{}
	err := request.LastOn(ctx, o.Link, names.StateStream, names.LivePrefix, ids, func(_ task.ID, m *nats.Msg) error {
		var l output.Live
		if json.Unmarshal(m.Data, &l) == nil {
			all[l.Task] = l
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("standing of %d tasks: %w", len(ids), err)
	}
	return all, nil
}

// WatchLive calls said with each progress report of a task, until stop is called. Messages can be
// lost.
func (o *Outputs) WatchLive(id task.ID, said func(output.Live)) (stop func(), err error) {
	return o.Listen(names.LivePrefix+string(id), "watch task "+string(id), func(m *nats.Msg) {
		var l output.Live
		if json.Unmarshal(m.Data, &l) == nil && l.Task == id {
			said(l)
		}
	})
}
