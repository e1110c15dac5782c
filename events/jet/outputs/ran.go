package outputs

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"millrace/events/jet/names"
	"millrace/events/jet/request"
	"millrace/task/duties"
	"millrace/task/value"
)

// ranTTL is how long the place where a job's or key's last task ran is remembered.
const ranTTL = 30 * 24 * time.Hour

// ranSubject is where that is stored. Names are hashed like those of unique keys.
func ranSubject(name string) string { return names.RanPrefix + value.Mark(name) }

// SaveRan stores where a task started, and replaces what was stored before.
func (o *Outputs) SaveRan(ctx context.Context, r duties.Ran) error {
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if _, err := o.Pub.Publish(ctx, &nats.Msg{Subject: ranSubject(r.Name), Data: body, Header: request.TTL(ranTTL)}); err != nil {
		return fmt.Errorf("remember where %s ran: %w", r.Name, err)
	}
	return nil
}

// Ran returns where a task of this name last started; its node is "" if unknown.
func (o *Outputs) Ran(ctx context.Context, name string) (duties.Ran, error) {
	m, found, err := o.LeaderGetFrom(ctx, names.StateStream, map[string]any{"last_by_subj": ranSubject(name)})
	if err != nil {
		return duties.Ran{}, fmt.Errorf("where %s ran: %w", name, err)
	}
	var r duties.Ran
	if !found || json.Unmarshal(m.Data, &r) != nil || r.Name != name || value.ValidName("node", r.Node) != nil {
		return duties.Ran{}, nil
	}
	return r, nil
}
