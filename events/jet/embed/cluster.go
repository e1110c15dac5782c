package embed

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Cluster is several NATS servers on loopback, in this process, that hold everything together. It
// is for tests and benchmarks; in production these are NATS's own programs.
type Cluster struct {
	Servers []*server.Server
	members []Member
}

// Member is one of these servers. A benchmark runs each in a process of its own.
type Member struct {
	// Dir is its data directory.
	Dir string
	// Number is its place in Routes.
	Number int
	// Routes are the addresses at which the servers find each other, one for each.
	Routes []string
	// Port is where clients connect; 0 for a free one.
	Port int
	// More is configuration beside that, for instance accounts.
	More string
}

// Start starts the server, without waiting for the others.
func (m Member) Start() (*server.Server, error) {
	opts := &server.Options{}
	port := m.Port
	if port == 0 {
		port = server.RANDOM_PORT
	}
	err := opts.ProcessConfigString(fmt.Sprintf(`server_name: s%d, listen: "127.0.0.1:%d", max_payload: 8MB, jetstream { store_dir: %q }
		cluster { name: test, listen: %q, routes: ["nats://%s"] }
		%s`, m.Number, port, m.Dir, m.Routes[m.Number], strings.Join(m.Routes, `", "nats://`), m.More))
	if err != nil {
		return nil, err
	}
	opts.NoSigs, opts.NoLog, opts.DisableJetStreamBanner = true, true, true
	ns, err := server.NewServer(opts)
	if err != nil {
		return nil, err
	}
	ns.Start()
	return ns, nil
}

// electTime is how long the servers may take to find each other and elect a leader.
const electTime = 20 * time.Second

// StartCluster starts n servers with data in dir, and waits until they have elected a leader. more
// is configuration of all of them. Another process can take one of the ports before a server has
// it; then all start again at others.
func StartCluster(dir string, n int, more string) (*Cluster, error) {
	var failed error
	for attempt := range 5 {
		c, err := tryCluster(filepath.Join(dir, fmt.Sprint(attempt)), n, more)
		if err == nil {
			return c, nil
		}
		c.Stop()
		failed = errors.Join(failed, err)
	}
	return nil, failed
}

func tryCluster(dir string, n int, more string) (*Cluster, error) {
	c := &Cluster{}
	routes, err := FreeAddresses(n)
	if err != nil {
		return c, err
	}
	for i := range routes {
		m := Member{Dir: filepath.Join(dir, fmt.Sprint(i)), Number: i, Routes: routes, More: more}
		ns, err := m.Start()
		if err != nil {
			return c, err
		}
		c.Servers, c.members = append(c.Servers, ns), append(c.members, m)
	}
	for end := time.Now().Add(electTime); !slices.ContainsFunc(c.Servers, c.leads); {
		if time.Now().After(end) {
			return c, fmt.Errorf("%d NATS servers have not found each other within %v", n, electTime)
		}
		<-time.After(5 * time.Millisecond)
	}
	return c, nil
}

// leads tells whether a server is the leader of all.
func (c *Cluster) leads(ns *server.Server) bool {
	return ns.JetStreamIsLeader() && len(ns.JetStreamClusterPeers()) == len(c.Servers)
}

// FreeAddresses returns n addresses on loopback at which no process listens at this moment.
func FreeAddresses(n int) (all []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { _ = l.Close() }() // only after all are found, so that they differ
		all = append(all, l.Addr().String())
	}
	return all, nil
}

// URL is where clients connect, to any of the servers.
func (c *Cluster) URL() string {
	var urls []string
	for _, ns := range c.Servers {
		urls = append(urls, ns.ClientURL())
	}
	return strings.Join(urls, ",")
}

// Restart starts a server again that has stopped, on its data.
func (c *Cluster) Restart(i int) error {
	ns, err := c.members[i].Start()
	if err == nil {
		c.Servers[i] = ns
	}
	return err
}

// Stop ends the servers.
func (c *Cluster) Stop() {
	for _, ns := range c.Servers {
		ns.Shutdown()
	}
	for _, ns := range c.Servers {
		ns.WaitForShutdown()
	}
}
