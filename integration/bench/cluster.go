package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"millrace/events/jet/embed"
)

// MemberCommand is the hidden command that runs one NATS server of a [Cluster]. Its arguments are
// those of [RunMember].
const MemberCommand = "bench-member"

// RunMember runs a NATS server until ctx ends: its data directory, its number, and the addresses at
// which the servers of the cluster find each other. It prints where clients connect.
func RunMember(ctx context.Context, args []string, out io.Writer) error {
	number, err := strconv.Atoi(args[1])
	if routes := args[2:]; err != nil || number < 0 || number >= len(routes) {
		return fmt.Errorf("member %q of %d", args[1], len(routes))
	}
	ns, err := embed.Member{Dir: args[0], Number: number, Routes: args[2:]}.Start()
	if err != nil {
		return err
	}
	defer ns.WaitForShutdown()
	defer ns.Shutdown()
	if !ns.ReadyForConnections(memberStart) {
		return fmt.Errorf("the NATS server listens to nobody after %v", memberStart)
	}
	if _, err := fmt.Fprintln(out, ns.ClientURL()); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// memberStart is how long a NATS server may take to listen.
const memberStart = 30 * time.Second

// Cluster is several NATS servers that hold everything together, each a process of its own.
type Cluster struct {
	members []*exec.Cmd
	dir     string
	// URL is where clients connect, to any of them.
	URL string
}

// StartCluster starts n NATS servers, as processes of this program, in a temporary directory.
func StartCluster(ctx context.Context, n int) (c *Cluster, err error) {
	c = &Cluster{}
	defer func() {
		if err != nil {
			c.Stop()
		}
	}()
	self, err := os.Executable()
	if err != nil {
		return c, err
	}
	if c.dir, err = os.MkdirTemp("", "millrace-bench-"); err != nil {
		return c, err
	}
	routes, err := embed.FreeAddresses(n)
	if err != nil {
		return c, err
	}
	var urls []string
	for i := range n {
		url, err := c.startMember(ctx, self, i, routes)
		if err != nil {
			return c, err
		}
		urls = append(urls, url)
	}
	c.URL = strings.Join(urls, ",")
	return c, nil
}

// startMember starts one of them, and returns where clients connect.
func (c *Cluster) startMember(ctx context.Context, self string, i int, routes []string) (url string, err error) {
	// Not bound to ctx: Stop ends it in order.
	cmd := exec.Command(self, append([]string{MemberCommand, filepath.Join(c.dir, strconv.Itoa(i)), strconv.Itoa(i)}, routes...)...)
	cmd.Env, cmd.Stderr = cleanEnv(), os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return "", err
	}
	c.members = append(c.members, cmd)
	unbind := context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(syscall.SIGTERM) }) // the read below ends
	defer unbind()
	url, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return "", errors.Join(fmt.Errorf("a NATS server of the cluster under test ended at once: %w", err), ctx.Err())
	}
	return strings.TrimSpace(url), nil
}

// Stop ends the servers and removes their data.
func (c *Cluster) Stop() {
	for _, m := range c.members {
		stop(m)
	}
	_ = os.RemoveAll(c.dir) // what is left lies in the folder for temporary files
}
