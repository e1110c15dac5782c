package streams

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millrace/events/jet/names"
	"millrace/events/jet/request"
)

// ErrRestoring: a backup is being restored, or its restore was cut off.
var ErrRestoring = errors.New("the log of this NATS server is being restored from a backup, or that was cut off: wait for `millrace restore`, or run it once more, which begins anew")

// metaRestoring marks the log while it is restored. Nothing opens it meanwhile.
const metaRestoring = "millrace.restoring"

// restoredGap is how far the next sequence of a restored log lies above its last one. An epoch is a
// sequence, and so is the head of a chain. Processes that outlive the old log know those that it gave
// after the backup; none may return with another meaning. So it is more than a log grows between a
// backup and its restore, and still a number of gaps that a NATS server can list.
const restoredGap = 1 << 24

// Restored says what a restore has made.
type Restored struct {
	// From is the first sequence that the log gives now.
	From uint64
	// Ungapped is set if the NATS server of the backup was too old for a gap: then From follows the
	// last fact.
	Ungapped bool
	// Again is set if the streams of a restore that was cut off were removed first.
	Again bool
}

// Restore makes the streams of a backup on a NATS server or cluster that has none, on as many servers
// as the layout says. m is what [ReadBackup] has returned for dir; said hears of each stream.
//
// While it runs, opening the log fails with [ErrRestoring]. One that was cut off, by whatever, is
// begun anew by the next one. It returns an error that wraps [ErrThere] if the NATS server has
// streams of Millrace that no restore has made.
func Restore(ctx context.Context, nc *nats.Conn, dir string, m Manifest, l Layout, said func(SavedStream)) (r Restored, err error) {
	if r.Again, err = vacate(ctx, nc); err != nil {
		return r, err
	}
	replicas := l.withDefaults().Replicas
	// The log comes first, with its mark, and gets rid of it last. So whatever is there besides a
	// marked log is the work of a restore.
	for _, first := range []bool{true, false} {
		for i, is := range m.Streams {
			if (is.Name == names.LogStream) != first {
				continue
			}
			gap, again, err := restoreAgain(ctx, nc, dir, is, replicas, m.Began.Format(time.RFC3339Nano), r.Again)
			r.Again = r.Again || again
			if err == nil && savedOrder[i].then != "" {
				err = addLater(ctx, nc, filepath.Join(dir, is.Name, laterFile))
			}
			if err == nil {
				err = compare(ctx, nc, is, gap)
			}
			if err != nil {
				return r, err
			}
			if first {
				r.From, r.Ungapped = is.Last+1+gap, gap == 0
			}
			said(is)
		}
	}
	for _, c := range m.Consumers {
		if err := restoreConsumer(ctx, nc, c); err != nil {
			return r, err
		}
	}
	return r, unmark(ctx, nc)
}

// triesToRestore is how often the restore of a stream begins.
const triesToRestore = 8

// restoreAgain is [restoreStream] until the name of the stream is free, and the NATS server answers. It
// tells whether it has removed a log of a restore that was cut off.
//
// A NATS server removes the files of a stream when it has said that it is gone; two of one name can get
// in each other's way. In a cluster the leader may still know the name when another server has said so.
// And nobody answers if another server is elected than the one that is to receive the stream, which has
// its name from then on: so the first try waits a little, and each next one twice as long.
func restoreAgain(ctx context.Context, nc *nats.Conn, dir string, is SavedStream, replicas int, mark string, emptied bool) (gap uint64, again bool, err error) {
	unanswered := false
	for try := range triesToRestore {
		gap, err = restoreStream(ctx, nc, dir, is, replicas, mark, min(answered/8<<try, answered))
		lost := errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil
		if !lost && !errors.Is(err, ErrThere) {
			break
		}
		unanswered = unanswered || lost
		ours := false
		if is.Name == names.LogStream {
			ours = leftover(ctx, nc, is.Name)
			again = again || ours && !unanswered
		} else { // whatever is there besides a marked log
			ours = remove(ctx, nc, is.Name) == nil
		}
		if !ours && !emptied && !unanswered {
			break
		}
		rest(ctx, time.Duration(try+1)*electing)
	}
	return gap, again, err
}

// leftover tells whether a cluster has the name of a stream and nothing else of it, or a stream that is
// marked, as after a restore that was killed, and removes that. It waits first, for a stream that is just
// being made is like that, too; a marked one may have come to light since [vacate] looked.
func leftover(ctx context.Context, nc *nats.Conn, name string) bool {
	rest(ctx, 20*electing)
	if _, err := configOf(ctx, nc, name); request.Says(err, request.CodeNoSuchStream) {
		return remove(ctx, nc, name) == nil
	}
	again, err := vacate(ctx, nc)
	return again && err == nil
}

func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// vacate sees that a NATS server has no streams of Millrace, and removes those of a restore that was
// cut off.
func vacate(ctx context.Context, nc *nats.Conn) (again bool, err error) {
	var there []string
	for _, stream := range savedOrder {
		cfg, err := configOf(ctx, nc, stream.name)
		switch {
		case request.Says(err, request.CodeNoSuchStream):
			continue
		case err != nil:
			return false, fmt.Errorf("stream %s: %w", stream.name, err)
		}
		there = append(there, stream.name)
		if stream.name == names.LogStream {
			metadata, err := metadataOf(cfg)
			if err != nil {
				return false, err
			}
			again = metadata[metaRestoring] != ""
		}
	}
	if len(there) > 0 && !again {
		return false, fmt.Errorf("%w: %s", ErrThere, strings.Join(there, ", "))
	}
	if again {
		// The log last: its mark says what the others are.
		for _, last := range []bool{false, true} {
			for _, stream := range savedOrder {
				if (stream.name == names.LogStream) == last {
					if err := remove(ctx, nc, stream.name); err != nil {
						return again, fmt.Errorf("remove the stream %s of a restore that was cut off: %w", stream.name, err)
					}
				}
			}
		}
	}
	return again, nil
}

func configOf(ctx context.Context, nc *nats.Conn, name string) (map[string]json.RawMessage, error) {
	var is struct{ Config map[string]json.RawMessage }
	err := insist(ctx, nc, names.APIInfo+name, nil, &is)
	return is.Config, err
}

func metadataOf(config map[string]json.RawMessage) (m map[string]string, err error) {
	if raw := config["metadata"]; raw != nil {
		err = json.Unmarshal(raw, &m)
	}
	return m, err
}

// restoreStream makes a stream, if the NATS server says within patience that it takes it. It returns by
// how much the sequences of the log go on higher.
//
// On several servers at once: NATS server 2.15 crashes if another server than the one that receives it
// is elected meanwhile, which was seen on a starved machine only. One server first and the others later
// is no way out: now and then the others never come.
func restoreStream(ctx context.Context, nc *nats.Conn, dir string, is SavedStream, replicas int, mark string, patience time.Duration) (gap uint64, err error) {
	text, err := os.ReadFile(filepath.Join(dir, is.Name, configFile))
	if err != nil {
		return 0, err
	}
	var of snapshot
	if err := json.Unmarshal(text, &of); err != nil {
		return 0, err
	}
	delete(of.Config, "placement") // names servers of the old cluster
	delete(of.Config, "sources")   // opening makes the log source the timers
	of.Config["num_replicas"] = strconv.AppendInt(nil, int64(replicas), 10)
	if is.Name == names.LogStream {
		metadata, err := metadataOf(of.Config)
		if err != nil {
			return 0, err
		}
		metadata = maps.Clone(metadata)
		metadata[metaRestoring] = mark
		if of.Config["metadata"], err = json.Marshal(metadata); err != nil {
			return 0, err
		}
	}
	file, err := os.Open(filepath.Join(dir, is.Name, streamFile))
	if err != nil {
		return 0, err
	}
	defer file.Close()
	into, err := restore(ctx, nc, is.Name, of, patience)
	if err != nil {
		return 0, err
	}
	to := bufio.NewWriterSize(into, chunk)
	if is.Name != names.LogStream {
		_, err = io.Copy(to, file)
	} else if advanced, wrong := advance(file, to, restoredGap); advanced {
		gap, err = restoredGap, wrong
	} else {
		err = wrong
	}
	if err == nil {
		err = to.Flush()
	}
	return gap, into.close(err)
}

// addLater stores what came while the backup was made. The NATS server tells by the id what it has
// stored without saying so.
func addLater(ctx context.Context, nc *nats.Conn, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	in := json.NewDecoder(file)
	for n := 1; ; n++ {
		var m laterMessage
		if err := in.Decode(&m); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		maps.DeleteFunc(m.Header, func(name string, _ []string) bool { return strings.HasPrefix(name, "Nats-Expected-") })
		msg := &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data}
		if msg.Header == nil {
			msg.Header = nats.Header{}
		}
		if msg.Header.Get(nats.MsgIdHdr) == "" {
			msg.Header.Set(nats.MsgIdHdr, fmt.Sprintf("restore %s %d", path, n))
		}
		if err := again(ctx, func(ctx context.Context) error { return exchange(ctx, nc, msg, nil) }); err != nil {
			return fmt.Errorf("store what came later on %s: %w", m.Subject, err)
		}
	}
}

// compare sees that a stream is what was saved.
func compare(ctx context.Context, nc *nats.Conn, is SavedStream, gap uint64) error {
	var now struct{ State jetstream.StreamState }
	if err := insist(ctx, nc, names.APIInfo+is.Name, nil, &now); err != nil {
		return err
	}
	switch s := now.State; {
	case s.LastSeq < is.Last+gap:
		return fmt.Errorf("the stream %s ends at #%d, and not at #%d", is.Name, s.LastSeq, is.Last+gap)
	// Messages of other streams expire, and replace each other.
	case is.Name == names.LogStream && is.Messages >= 0 && s.Msgs != uint64(is.Messages):
		return fmt.Errorf("the stream %s has %d messages, and not %d", is.Name, s.Msgs, is.Messages)
	}
	return nil
}

// restoreConsumer makes a consumer of the log that goes on where the saved one had done everything. So
// an offer may be handed out twice, but none is lost.
func restoreConsumer(ctx context.Context, nc *nats.Conn, c SavedConsumer) error {
	config := maps.Clone(c.Config)
	delete(config, "num_replicas") // as many as the log
	reset := trimmed(config["deliver_policy"], "all", "by_start_sequence")
	if !reset { // it is not one of Millrace
		delete(config, "opt_start_time")
		config["deliver_policy"] = json.RawMessage(`"by_start_sequence"`)
		config["opt_start_seq"] = strconv.AppendUint(nil, c.Done+1, 10)
	}
	var name string
	if err := json.Unmarshal(config["durable_name"], &name); err != nil {
		return err
	}
	err := insist(ctx, nc, names.APIMake+names.LogStream+"."+name, map[string]any{"stream_name": names.LogStream, "config": config, "action": "create"}, nil)
	if start, _ := strconv.ParseUint(string(config["opt_start_seq"]), 10, 64); err == nil && reset && c.Done > 0 && c.Done >= start {
		err = insist(ctx, nc, names.APIReset+names.LogStream+"."+name, map[string]any{"seq": c.Done + 1}, nil)
	}
	if err != nil {
		return fmt.Errorf("make the consumer %s: %w", name, err)
	}
	return nil
}

// unmark ends the restore: from then on the log can be opened.
func unmark(ctx context.Context, nc *nats.Conn) error {
	config, err := configOf(ctx, nc, names.LogStream)
	if err != nil {
		return err
	}
	metadata, err := metadataOf(config)
	if err != nil {
		return err
	}
	delete(metadata, metaRestoring)
	if config["metadata"], err = json.Marshal(metadata); err != nil {
		return err
	}
	return insist(ctx, nc, names.APIUpdate+names.LogStream, config, nil)
}
