package httpapi

import (
	"context"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// patiently is a transport whose end is heard when each request has its answer, so that a script can write all
// that it asks, and close.
type patiently struct{ mcp.Transport }

func (t patiently) Connect(ctx context.Context) (mcp.Connection, error) {
	is, err := t.Transport.Connect(ctx)
	p := &patientConn{Connection: is, open: map[jsonrpc.ID]bool{}}
	p.changed.L = &p.mu
	return p, err
}

type patientConn struct {
	mcp.Connection

	mu      sync.Mutex
	open    map[jsonrpc.ID]bool // guarded by mu; requests without an answer
	closed  bool                // guarded by mu
	changed sync.Cond
}

func (p *patientConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := p.Connection.Read(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	if r, ok := m.(*jsonrpc.Request); ok && r.IsCall() {
		p.open[r.ID] = true
	}
	for err != nil && len(p.open) > 0 && !p.closed { // each has its answer within a bound
		p.changed.Wait()
	}
	return m, err
}

func (p *patientConn) Write(ctx context.Context, m jsonrpc.Message) error {
	err := p.Connection.Write(ctx, m)
	if r, ok := m.(*jsonrpc.Response); ok {
		p.mu.Lock()
		delete(p.open, r.ID)
		p.mu.Unlock()
		p.changed.Broadcast()
	}
	return err
}

func (p *patientConn) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.changed.Broadcast()
	return p.Connection.Close()
}
