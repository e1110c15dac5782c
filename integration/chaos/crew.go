package chaos

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"millrace/events/jet/request"
)

// crew is an installation: a NATS server, schedulers and workers, each a process of its own; each
// client of the server connects through a proxy of its own.
type crew struct {
	cfg     *Config
	dir     string
	server  *process
	others  map[Target]*process
	proxies map[Target]*Proxy
	ours    *Proxy // of this process; without faults
	locks   map[place]*sync.Mutex
	spawner *spawner
	secret  string   // password of all processes of the installation
	shelf   *shelf   // nil without files
	spoils  *spoiler // of the cache
	disk    *disk    // of the server

	mu       sync.Mutex
	injected []Injected // guarded by mu
}

// user is the NATS user of all processes, and passwordFile the file in its directory with their
// password.
const (
	user         = "chaos"
	passwordFile = "password"
)

// url returns the address at which this process reaches the NATS server.
func (c *crew) url() string { return "nats://" + user + ":" + c.secret + "@" + c.ours.Addr() }

// place is what can have one fault at a time.
type place struct {
	target Target
	aspect string
}

// startPatience is how long a process may take until it is ready. A log is read at the start.
const startPatience = 60 * time.Second

func newCrew(cfg *Config, dir string) (*crew, error) {
	env, err := surroundings(dir)
	if err != nil {
		return nil, err
	}
	secret := rand.Text()
	if err := os.WriteFile(filepath.Join(dir, passwordFile), []byte(secret), 0o600); err != nil {
		return nil, err
	}
	if cfg.mixes() {
		if _, err := exec.LookPath(filepath.Join(cfg.Older, olderTool)); err != nil || cfg.Older == "" {
			return nil, fmt.Errorf("--older %q is no folder with %s and %s of another version; `go build -o FOLDER ./cmd/...` in a checkout of it makes them", cfg.Older, olderProduct, olderTool)
		}
	}
	env = append(env, "NATS_USER="+user, "NATS_PASSWORD="+secret)
	c := &crew{cfg: cfg, dir: dir, others: map[Target]*process{}, proxies: map[Target]*Proxy{}, locks: map[place]*sync.Mutex{}, spawner: newSpawner()}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	member := func(name Target, program string, args ...string) *process {
		for _, f := range []Fault{Kill, Clock, Older} {
			c.locks[place{name, f.aspect()}] = &sync.Mutex{}
		}
		return &process{name: name, argv: append([]string{program}, args...), env: append(slices.Clone(env), request.ShiftEnv+"="+c.clockFile(name)), said: filepath.Join(dir, string(name)+".log"), spawner: c.spawner}
	}
	logArgs := []string{LogCommand, "--data", c.data(Server), "--sync", cfg.Sync, "--auth-user", user, "--auth-password-file", filepath.Join(dir, passwordFile)}
	c.server = member(Server, self, logArgs...)
	c.secret = secret
	if c.disk, err = newDisk(c.data(Server), cfg.fills()); err != nil {
		c.spawner.close()
		return nil, err
	}
	if c.ours, err = Listen(""); err != nil {
		c.disk.close()
		c.spawner.close()
		return nil, err
	}
	n := size{cfg.Workers, cfg.Schedulers}
	names := append(n.members(Schedulers), n.members(Workers)...)
	if cfg.files() {
		if c.shelf, err = newShelf(filepath.Join(dir, "shelf"), cfg.Seed, shelfVersions(cfg.Duration)); err != nil {
			c.close(0)
			return nil, err
		}
		names = append(names, Pusher)
	}
	c.spoils = &spoiler{dir: c.cache(), chance: mathrand.New(mathrand.NewPCG(cfg.Seed, 3))}
	c.locks[place{Cache, Spoil.aspect()}], c.locks[place{Callers, Clock.aspect()}] = &sync.Mutex{}, &sync.Mutex{}
	for _, name := range names {
		p, err := Listen("")
		if err != nil {
			c.close(0)
			return nil, err
		}
		c.proxies[name] = p
		var args []string
		program, settings := cfg.Program, cfg.Settings
		switch {
		case name.isWorker():
			args = []string{"worker", "--name", string(name), "--slots", strconv.Itoa(cfg.Slots), "--files-cache", c.cache()}
		case name == Pusher:
			args, program, settings = []string{PushCommand, c.shelf.dir}, self, nil
			// So that it pushes all the time, and not only at first.
			_ = p.Set(Mode{Kind: LinkThrottle, Rate: shelfLarge * len(c.shelf.sums) / int(cfg.Duration/time.Second)})
		default:
			args = []string{"server", "--data", c.data(name)}
		}
		args = append(args, "--server", "nats://"+p.Addr())
		c.others[name] = member(name, program, slices.Concat(args, settings)...)
		if name != Pusher && cfg.mixes() {
			c.others[name].older = slices.Concat([]string{filepath.Join(cfg.Older, olderProduct)}, args, cfg.Given)
		}
	}
	if cfg.mixes() {
		c.server.older = append([]string{filepath.Join(cfg.Older, olderTool)}, logArgs...)
	}
	for _, s := range cfg.Steps {
		for _, t := range n.members(s.Target) {
			if s.Fault == Older && s.At == 0 {
				c.process(t).age(true)
			}
		}
	}
	return c, nil
}

// The programs in the folder of [Config.Older].
const (
	olderProduct = "millrace"
	olderTool    = "millrace-chaos"
)

// LogCommand is the hidden command of the program that is only a NATS server; when it is ready its
// URL is in nats.url in its data directory.
const LogCommand = "chaos-log"

// PushCommand is the hidden command of the program that pushes the folders of a directory, one
// after the other and then again, and writes the digest of each to its [PushedFile].
const PushCommand = "chaos-push"

// cache is where the workers keep files, all in one place.
func (c *crew) cache() string { return filepath.Join(c.dir, "cache") }

func (c *crew) data(name Target) string { return filepath.Join(c.dir, "data", string(name)) }

// startServer starts the NATS server and connects all proxies to it.
func (c *crew) startServer(ctx context.Context) error {
	if err := os.MkdirAll(c.data(Server), 0o700); err != nil {
		return err
	}
	file := filepath.Join(c.data(Server), "nats.url")
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := c.server.start(); err != nil {
		return err
	}
	var url string
	err := c.server.await(ctx, startPatience, func() bool {
		text, err := os.ReadFile(file)
		url = strings.TrimSpace(string(text))
		return err == nil
	})
	if err != nil {
		return err
	}
	addr := strings.TrimPrefix(url, "nats://")
	c.ours.SetTarget(addr)
	for _, p := range c.proxies {
		p.SetTarget(addr)
	}
	return nil
}

func (c *crew) process(t Target) *process {
	if t == Server {
		return c.server
	}
	return c.others[t]
}

// inject performs one step, from its beginning to its end. If ctx ends, it ends the fault at once.
func (c *crew) inject(ctx context.Context, s Step) error {
	members := size{c.cfg.Workers, c.cfg.Schedulers}.members(s.Target)
	for _, t := range members { // always in this order, so that no two wait for each other
		lock := c.locks[place{t, s.Fault.aspect()}]
		lock.Lock()
		defer lock.Unlock()
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if s.Fault == Older {
		return c.age(ctx, members, s.For.Std())
	}
	began := make([]time.Time, len(members))
	var beginning sync.WaitGroup
	for i, t := range members {
		began[i] = time.Now()
		if s.Fault != Term {
			c.begin(t, s)
			continue
		}
		beginning.Go(func() { c.begin(t, s) })
	}
	beginning.Wait()
	timer := time.NewTimer(s.For.Std())
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	var errs []error
	for i, t := range members {
		err := c.heal(ctx, t, s)
		c.mu.Lock()
		c.injected = append(c.injected, Injected{Fault: s.Fault, Target: t, Began: began[i], Ended: time.Now()})
		c.mu.Unlock()
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// age has some processes run the older program for a time, one after the other.
func (c *crew) age(ctx context.Context, members []Target, length time.Duration) error {
	timer := time.NewTimer(length)
	defer timer.Stop()
	for _, older := range []bool{true, false} {
		for _, t := range members {
			if err := c.change(ctx, t, older); err != nil {
				return err
			}
		}
		if older {
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
		}
	}
	return nil
}

// change has a process run the older program, or the newer one again: at once if it runs, else when it
// is started.
func (c *crew) change(ctx context.Context, t Target, older bool) error {
	p := c.process(t)
	if !p.age(older) || ctx.Err() != nil {
		return nil
	}
	lock := c.locks[place{t, Term.aspect()}]
	lock.Lock()
	defer lock.Unlock()
	began := time.Now()
	c.begin(t, Step{Fault: Term})
	err := c.heal(ctx, t, Step{Fault: Term})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.injected = append(c.injected, Injected{Fault: Older, Target: t, Began: began, Ended: time.Now()})
	return err
}

func (c *crew) begin(t Target, s Step) {
	switch s.Fault {
	case Kill:
		c.process(t).end(false, 0)
	case Term:
		c.process(t).end(true, c.cfg.Grace+stopPatience)
	case Pause:
		c.process(t).signal(syscall.SIGSTOP)
	case Clock:
		_ = c.shift(t, s.Shift) // in a folder of our own
	case Spoil:
		c.spoils.begin()
	case Fill:
		// A disk that cannot be filled does no harm, and the verdict says so.
		_ = c.disk.fill(c.process(t).pid())
	default:
		_ = c.proxies[t].Set(s.mode()) // the step was checked
	}
}

func (c *crew) heal(ctx context.Context, t Target, s Step) error {
	switch {
	case s.Fault == Pause:
		c.process(t).signal(syscall.SIGCONT)
	case s.Fault == Spoil:
		c.spoils.end()
	case s.Fault == Clock:
		return c.shift(t, 0)
	case s.Fault == Fill:
		return c.disk.empty(c.process(t).pid())
	case !s.Fault.ofProcess():
		return c.proxies[t].Set(Mode{})
	case ctx.Err() != nil: // everything ends
	case t == Server:
		if err := c.startServer(ctx); err != nil {
			return fmt.Errorf("the server does not come back: %w", err)
		}
	default:
		return c.process(t).start()
	}
	return nil
}

// faults returns the faults that have ended.
func (c *crew) faults() []Injected {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Injected(nil), c.injected...)
}

// oddities lists what processes did unasked.
func (c *crew) oddities() []string {
	all := c.server.oddities()
	for _, name := range (size{c.cfg.Workers, c.cfg.Schedulers}).members(All)[1:] {
		all = append(all, c.others[name].oddities()...)
	}
	if p := c.others[Pusher]; p != nil {
		all = append(all, p.oddities()...)
	}
	return all
}

// close ends everything: in order, and by force after patience.
func (c *crew) close(patience time.Duration) {
	var ending sync.WaitGroup
	for _, p := range c.others {
		ending.Go(func() {
			p.signal(syscall.SIGCONT) // a stopped process hears nothing else
			p.end(true, patience)
		})
	}
	ending.Wait()
	c.server.signal(syscall.SIGCONT)
	c.server.end(true, patience)
	for _, p := range c.proxies {
		p.Close()
	}
	c.ours.Close()
	c.spawner.close()
	c.disk.close()
}

// Shift is by how much a process believes its machine's clock to be ahead; below zero, behind.
type Shift time.Duration

func (s Shift) String() string { return time.Duration(s).String() }

// MarshalText writes the form that [time.ParseDuration] reads.
func (s Shift) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText parses a duration that may be negative, such as "-5m".
func (s *Shift) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is no duration: want a number with a unit, for example 3m or -90s", text)
	}
	*s = Shift(d)
	return nil
}

// clockFile is the file in which a process finds its [Shift]: [request.Shifted] reads it.
func (c *crew) clockFile(t Target) string { return filepath.Join(c.dir, string(t)+".clock") }

// shift sets how a process perceives its machine's clock.
func (c *crew) shift(t Target, s Shift) error {
	next := c.clockFile(t) + ".next"
	if err := os.WriteFile(next, []byte(s.String()), 0o600); err != nil {
		return err
	}
	return os.Rename(next, c.clockFile(t)) // it may be read at any time
}
