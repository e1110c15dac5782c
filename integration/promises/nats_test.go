package promises

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"millrace/integration/harness"
)

// These variables tell a process of this test program that it is a NATS server: where it stores, and
// where it listens.
const (
	natsStore = "INTEGRATION_NATS_STORE"
	natsPort  = "INTEGRATION_NATS_PORT"
)

// serveNATS is a nats-server with its usual settings. It prints its address, and ends when its input
// ends.
func serveNATS(store string) int {
	opts := &server.Options{}
	err := opts.ProcessConfigString(fmt.Sprintf("listen: \"127.0.0.1:%s\"\njetstream { store_dir: %q }\nmax_payload: 8MB\n", os.Getenv(natsPort), store))
	if err == nil {
		var ns *server.Server
		if ns, err = server.NewServer(opts); err == nil {
			ns.ConfigureLogger() // to stderr
			ns.Start()
			if ns.ReadyForConnections(harness.Patience) {
				fmt.Println(ns.ClientURL())
				_, _ = io.Copy(io.Discard, os.Stdin) // until the test is gone
				ns.Shutdown()
				ns.WaitForShutdown()
				return 0
			}
			err = fmt.Errorf("it is not ready after %v", harness.Patience)
		}
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// otherNATS is a NATS server that no process of Millrace has started, as operators have.
type otherNATS struct {
	p     *harness.Place
	store string
	cmd   *exec.Cmd
	in    io.Closer
	said  harness.Buffer
}

// start starts it at the port given, or at a free one, and has all programs of the place find it.
func (n *otherNATS) start(port string) {
	n.p.Helper()
	self, err := os.Executable()
	if err != nil {
		n.p.Fatal(err)
	}
	n.cmd = exec.Command(self)
	n.cmd.Env = append(os.Environ(), natsStore+"="+n.store, natsPort+"="+port)
	n.cmd.Stderr = &n.said
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := n.cmd.StdinPipe()
	if err != nil {
		n.p.Fatal(err)
	}
	n.in = in
	var out harness.Buffer
	n.cmd.Stdout = &out
	if err := n.cmd.Start(); err != nil {
		n.p.Fatal(err)
	}
	n.p.Until("the NATS server says where it is", func() bool { return strings.HasSuffix(out.String(), "\n") })
	n.p.URL = strings.TrimSpace(out.String())
}

// stop ends it, by force if it does not end by itself.
func (n *otherNATS) stop() {
	_ = n.in.Close()
	by := time.AfterFunc(harness.Patience/4, func() { _ = n.cmd.Process.Kill() })
	defer by.Stop()
	_ = n.cmd.Wait() // how it ended says nothing of Millrace
}
