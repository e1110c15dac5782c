package streams

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"millrace/events"
	"millrace/events/jet/names"
	"millrace/events/jet/request"
)

// Layout says how the streams are made. It has an effect only on missing streams. Opening changes
// an existing stream in one way: it adds subjects that an earlier version did not have.
type Layout struct {
	// Replicas is the number of servers that hold each message: 1, 3 or 5. Default 1.
	Replicas int
	// SyncAlways says that the servers flush every write to disk before they
	// acknowledge it (sync_interval: always). Writers then share flushes by
	// writing in groups. Default false.
	SyncAlways bool
	// AckWait is how long a silent worker keeps a lease. Default 30s.
	AckWait time.Duration
	// Import says what the log lacks because it is laid out from an incident file. It is part of the
	// stream's metadata, so no other writer can declare its own facts hidden or missing. Default:
	// zero.
	Import events.Import
}

// Keys of the metadata by which a stream tells writers how it was made.
const (
	metaSync    = "millrace.sync"
	metaAckWait = "millrace.ack_wait"
	metaHidden  = "millrace.hidden" // of the log only
	metaLacks   = "millrace.lacks"  // likewise
	syncAlways  = "always"
)

func (l Layout) withDefaults() Layout {
	if l.Replicas == 0 {
		l.Replicas = 1
	}
	if l.AckWait == 0 {
		l.AckWait = 30 * time.Second
	}
	return l
}

func (l Layout) metadata() map[string]string {
	m := map[string]string{"millrace": "1", metaAckWait: l.AckWait.String()}
	if l.SyncAlways {
		m[metaSync] = syncAlways
	}
	return m
}

// LayoutOf returns the part of an existing log's layout that writers and readers depend on.
func LayoutOf(log jetstream.StreamConfig) (l Layout) {
	l.SyncAlways = log.Metadata[metaSync] == syncAlways
	l.AckWait, _ = time.ParseDuration(log.Metadata[metaAckWait]) // else it was made by hand
	l.Import.Hidden, _ = strconv.ParseUint(log.Metadata[metaHidden], 10, 64)
	l.Import.Lacks, _ = strconv.ParseUint(log.Metadata[metaLacks], 10, 64)
	return l.withDefaults()
}

// maxConsumers is how many consumers the log may have: more than any use needs. A stream without a
// value, or with "any number", gets the server's own limit of 1000; at that limit no worker for
// another queue can start, and no reader of the log.
const maxConsumers = 100_000

// Streams returns all streams; [Layout] says what varies.
func (l Layout) Streams() []jetstream.StreamConfig {
	l = l.withDefaults()
	return []jetstream.StreamConfig{l.timerStream(), l.LogStream(), {
		Name:        names.OutputStream,
		Description: "Millrace: lines that tasks print, in batches",
		Subjects:    []string{names.OutputPrefix + "*"},
		AllowDirect: true,
		Storage:     jetstream.FileStorage, Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardOld,
		MaxAge: 30 * 24 * time.Hour, MaxMsgSize: 1 << 20, Compression: jetstream.S2Compression,
		Duplicates: 2 * time.Minute,
		Replicas:   l.Replicas, Metadata: l.metadata(),
	}, {
		Name:        names.DataStream,
		Description: "Millrace: records that tasks produce, in acknowledged batches",
		Subjects:    []string{names.DataPrefix + "*"},
		AllowDirect: true,
		Storage:     jetstream.FileStorage, Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardOld,
		MaxMsgSize: 8 << 20, Compression: jetstream.S2Compression,
		Duplicates: 2 * time.Minute,
		Replicas:   l.Replicas, Metadata: l.metadata(),
	}, l.filesStream(), l.stateStream(), l.beatStream()}
}

// LogStream is the configuration of the log's stream, one of [Layout.Streams].
func (l Layout) LogStream() jetstream.StreamConfig {
	l = l.withDefaults()
	metadata := l.metadata()
	for name, seq := range map[string]uint64{metaHidden: l.Import.Hidden, metaLacks: l.Import.Lacks} {
		if seq > 0 {
			metadata[name] = strconv.FormatUint(seq, 10)
		}
	}
	return jetstream.StreamConfig{
		Name:        names.LogStream,
		Description: "Millrace: every fact about tasks and nodes; the only truth",
		Subjects: []string{names.QueuePrefix + ">", names.HoldPrefix + ">", names.ChainPrefix + ">", names.NodePrefix + ">", names.DefPrefix + ">", names.BreakPrefix + ">",
			names.StatePrefix + "*", names.FirePrefix + ">", names.TickPrefix + ">", names.KeyPrefix + "*", names.AdmitPrefix + ">", names.CopiesSubject, names.DeadPrefix + ">", names.LogProbe,
			names.HorizonSubject, names.CarriedPrefix + ">", names.TallyPrefix + "*"},
		// No rollup, no TTL and no schedules: each would let one message remove others, or itself.
		AllowAtomicPublish: true, AllowDirect: true,
		Sources:      []*jetstream.StreamSource{timerSource()},
		MaxConsumers: maxConsumers,
		Storage:      jetstream.FileStorage, Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardOld,
		// Facts are recognised by their own ids, so the server's window would only cost memory.
		Duplicates: 100 * time.Millisecond,
		MaxMsgSize: 1 << 20,
		Replicas:   l.Replicas, Metadata: metadata,
	}
}

// Config returns the configuration of one stream, as the API of JetStream has it, for a log that is
// written into a data directory. It has no sources: opening makes the log source the timers.
func (l Layout) Config(name string) ([]byte, error) {
	for _, cfg := range l.withDefaults().Streams() {
		if cfg.Name == name {
			cfg.Sources = nil
			return json.Marshal(cfg)
		}
	}
	return nil, fmt.Errorf("there is no stream %s", name)
}

func (l Layout) buckets() []jetstream.KeyValueConfig {
	return []jetstream.KeyValueConfig{{
		Bucket: names.DefsBucket, Description: "Millrace: copies of jobs and schedules as the log has them; change them with millrace", History: 64,
		Storage: jetstream.FileStorage, Replicas: l.Replicas, Metadata: l.metadata(),
	}}
}

// beatStream is the stream of the bucket of heartbeats. The client library would make one in which a
// message erases all others, by its headers; so would the server, if it is to mark what has expired.
func (l Layout) beatStream() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        names.BucketStream + names.NodesBucket,
		Description: "Millrace: heartbeats by node, each with its own TTL",
		Subjects:    []string{names.BucketSubject + names.NodesBucket + ".>"},
		AllowDirect: true, AllowMsgTTL: true, DenyDelete: true, MaxMsgsPerSubject: 1,
		Storage: jetstream.FileStorage, Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew,
		Duplicates: 100 * time.Millisecond,
		Replicas:   l.Replicas, Metadata: l.metadata(),
	}
}

// extend adds the subjects that a stream of an earlier version lacks, and lets it have as many
// consumers as it needs. Millrace changes nothing else of an existing stream, and only its own.
func extend(ctx context.Context, js jetstream.JetStream, cfg jetstream.StreamConfig) error {
	s, err := js.Stream(ctx, cfg.Name)
	if err != nil {
		return err
	}
	now := s.CachedInfo().Config
	// A server died while it reset the log's source.
	if cfg.Name == names.LogStream && now.Metadata["millrace"] != "" && len(now.Sources) == 0 {
		now.Sources = cfg.Sources
		if _, err = js.UpdateStream(ctx, now); err != nil {
			return err
		}
	}
	if cfg.Name == names.BucketStream+names.NodesBucket && now.Metadata["millrace"] != "" && now.AllowRollup {
		// An earlier version made it. Its messages stay.
		now.AllowRollup, now.SubjectDeleteMarkerTTL, now.Duplicates = false, 0, cfg.Duplicates
		if _, err = js.UpdateStream(ctx, now); err != nil {
			return err
		}
	}
	missing := slices.DeleteFunc(slices.Clone(cfg.Subjects), func(subject string) bool { return slices.Contains(now.Subjects, subject) })
	few := cfg.MaxConsumers > 0 && now.MaxConsumers <= 0 // an operator's own value stays
	if len(missing) == 0 && !few || now.Metadata["millrace"] == "" {
		return nil
	}
	now.Subjects = append(now.Subjects, missing...)
	if few {
		now.MaxConsumers = cfg.MaxConsumers
	}
	_, err = js.UpdateStream(ctx, now)
	// By a server that cannot change that.
	if refused := (*jetstream.APIError)(nil); few && errors.As(err, &refused) {
		if now.MaxConsumers = s.CachedInfo().Config.MaxConsumers; len(missing) == 0 {
			return nil
		}
		_, err = js.UpdateStream(ctx, now)
	}
	return err
}

// ErrOldLog: an earlier version made the log in a form that a single message could erase. No server
// can change the form of an existing stream.
var ErrOldLog = errors.New("the log has a form that single messages can erase, as versions before this one made it, and this version cannot go on with it: " +
	"export it with that version (`millrace events export`), and import it into a data directory of its own with this one (`millrace events import`)")

// Current returns an error for a log of an old form, and [ErrRestoring] for one that is not whole yet.
func Current(log jetstream.StreamConfig) error {
	if log.Metadata[metaRestoring] != "" {
		return ErrRestoring
	}
	if log.Metadata["millrace"] != "" && (log.AllowRollup || log.AllowMsgTTL || log.AllowMsgSchedules) {
		return ErrOldLog
	}
	return nil
}

// Ensure makes missing streams and buckets.
func Ensure(ctx context.Context, f *request.Former, js jetstream.JetStream, l Layout) error {
	l = l.withDefaults()
	err := f.Do(ctx, func(ctx context.Context) error {
		s, err := js.Stream(ctx, names.LogStream)
		if err != nil {
			return err
		}
		return Current(s.CachedInfo().Config)
	})
	if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("stream %s: %w", names.LogStream, err)
	}
	for _, cfg := range l.Streams() {
		err := f.Do(ctx, func(ctx context.Context) error { return makeStream(ctx, js, cfg) })
		if err == nil {
			err = f.Await(ctx, func(ctx context.Context) error { return completeStream(ctx, js, cfg) })
		}
		if err != nil {
			return fmt.Errorf("stream %s: %w", cfg.Name, err)
		}
	}
	for _, cfg := range l.buckets() {
		if err := f.Do(ctx, func(ctx context.Context) error { return makeBucket(ctx, js, cfg) }); err != nil {
			return fmt.Errorf("bucket %s: %w", cfg.Bucket, err)
		}
	}
	return nil
}

// makeStream makes a stream unless another process is faster. One that another process is making
// has its name already, and is not found yet.
func makeStream(ctx context.Context, js jetstream.JetStream, cfg jetstream.StreamConfig) error {
	_, err := js.Stream(ctx, cfg.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		_, err = js.CreateStream(ctx, cfg)
	}
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return nil
	}
	return err
}

// completeStream gives a stream what it needs beside its name.
func completeStream(ctx context.Context, js jetstream.JetStream, cfg jetstream.StreamConfig) error {
	if cfg.Name == names.TimerStream { // before the log asks for it
		if _, err := ensureFired(ctx, js); err != nil {
			return err
		}
	}
	return extend(ctx, js, cfg)
}

// makeBucket is makeStream for a bucket.
func makeBucket(ctx context.Context, js jetstream.JetStream, cfg jetstream.KeyValueConfig) error {
	_, err := js.KeyValue(ctx, cfg.Bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		_, err = js.CreateKeyValue(ctx, cfg)
	}
	if errors.Is(err, jetstream.ErrBucketExists) {
		return nil
	}
	return err
}

// stateStream holds the latest reports of tasks: one message per subject.
func (l Layout) stateStream() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        names.StateStream,
		Description: "Millrace: how running tasks stand, what their next attempts go on from, which lanes and tokens are used, what selectors stand for",
		Subjects:    []string{names.LivePrefix + "*", names.CheckpointPrefix + "*", names.RanPrefix + "*", names.UsedPrefix + "*", names.LaneWordPrefix + "*.*.*", names.SelectorPrefix + "*"},
		AllowDirect: true, AllowMsgTTL: true, MaxMsgsPerSubject: 1,
		Storage: jetstream.FileStorage, Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardOld,
		MaxMsgSize: 256 << 10, Compression: jetstream.S2Compression,
		Duplicates: 100 * time.Millisecond,
		Replicas:   l.Replicas, Metadata: l.metadata(),
	}
}

// maxFilesMessage is more than a chunk with its headers, and less than a server's default
// max_payload.
const maxFilesMessage = 1 << 20

// filesStream holds contents of files, by their digest.
func (l Layout) filesStream() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        names.FilesStream,
		Description: "Millrace: contents of files by their digest, and what tasks have left",
		Subjects:    []string{names.ChunkPrefix + "*", names.VersionPrefix + "*", names.ProtectPrefix + "*", names.DamagedPrefix + "*", names.LeftPrefix + "*.*", names.StepPrefix + "*.*.*", names.SweepSubject},
		AllowDirect: true, AllowMsgTTL: true,
		// A chunk that is stored again replaces its equal. At a limit new chunks are refused; old
		// ones stay.
		MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew,
		Storage: jetstream.FileStorage, Retention: jetstream.LimitsPolicy,
		MaxMsgSize: maxFilesMessage,
		Duplicates: 100 * time.Millisecond,
		Replicas:   l.Replicas, Metadata: l.metadata(),
	}
}
