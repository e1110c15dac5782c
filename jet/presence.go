package jet

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millrace/node"
	"millrace/task"
)

// Beat stores a node's heartbeat, which the server removes after ttl (whole
// seconds, at least 1s) unless another one comes. It waits for the server's word.
func (s *Store) Beat(ctx context.Context, id node.ID, h node.Heartbeat, ttl time.Duration) error {
	body, err := json.Marshal(h)
	if err != nil {
		return err
	}
	seconds := max(int(math.Ceil(ttl.Seconds())), 1)
	// The bucket's own Put would drop the TTL of the key.
	m := &nats.Msg{Subject: "$KV." + NodesBucket + "." + string(id), Data: body, Header: nats.Header{"Nats-TTL": {strconv.Itoa(seconds) + "s"}}}
	if _, err := s.pub.publish(ctx, m); err != nil {
		return fmt.Errorf("heartbeat of %s: %w", id, err)
	}
	return nil
}

// maxHeads is for how many subjects the server answers one request.
const maxHeads = 1024

// Alive returns the heartbeats that have not run out.
func (s *Store) Alive(ctx context.Context) (map[node.ID]node.Heartbeat, error) {
	prefix := "$KV." + NodesBucket + "."
	found, err := s.batchGet(ctx, "KV_"+NodesBucket, maxHeads, map[string]any{"multi_last": []string{prefix + ">"}})
	if err != nil {
		return nil, fmt.Errorf("read heartbeats: %w", err)
	}
	alive := make(map[node.ID]node.Heartbeat, len(found))
	for _, m := range found {
		var h node.Heartbeat
		if m.Header.Get("Nats-Marker-Reason") != "" || m.Header.Get("KV-Operation") != "" || json.Unmarshal(m.Data, &h) != nil {
			continue // it ran out or was removed, or is none of ours
		}
		alive[node.ID(strings.TrimPrefix(added(m, jetstream.SubjectHeader), prefix))] = h
	}
	return alive, nil
}

// Forget removes a node's heartbeat at once, when it leaves.
func (s *Store) Forget(ctx context.Context, id node.ID) error {
	if err := s.nodes.Purge(ctx, string(id), jetstream.PurgeTTL(markerTTL)); err != nil {
		return fmt.Errorf("forget node %s: %w", id, err)
	}
	return nil
}

// Hint tells a node, without any promise of delivery, that something has
// happened to a task that it runs. It looks at the log by itself now and then.
func (s *Store) Hint(n node.ID, id task.ID) error {
	return s.nc.Publish(hintPrefix+string(n), []byte(id))
}

// OnHint calls look for each hint to a node, until stop is called.
func (s *Store) OnHint(n node.ID, look func(task.ID)) (stop func(), err error) {
	sub, err := s.nc.Subscribe(hintPrefix+string(n), func(m *nats.Msg) {
		if id, err := task.ParseID(string(m.Data)); err == nil {
			look(id)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("listen for hints: %w", err)
	}
	return func() { _ = sub.Unsubscribe() }, nil // fails only if the connection is gone
}
