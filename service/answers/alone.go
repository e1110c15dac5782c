package answers

import (
	"context"
	"encoding/json"
	"fmt"

	"millrace/events/jet"
	"millrace/events/jet/rights"
	"millrace/projections"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/duties"
	"millrace/task/node"
	"millrace/task/value"
)

// Alone has this process answer, where no service does, what a client asks about a moment of the
// past: the code of the service answers it, from a fold of the log up to there. Rules and nodes are
// the numbers by which it judges.
func Alone(c *client.Client, then view.Folded, rules duties.Settings, nodes node.Settings) {
	d := NewDesk(&Service{Client: client.New(c.Store(), ""), Model: alone{then}, Rules: rules, Nodes: nodes})
	c.StandIn(func(ctx context.Context, verb rights.Verb, request, answer any) error {
		var of struct{ At string }
		if body, err := value.JSON(request); err != nil || json.Unmarshal(body, &of) != nil || of.At == "" {
			return jet.ErrNoService
		}
		err := d.Ask(ctx, c.Store().Caller(), verb, request, answer)
		if err == nil || ctx.Err() != nil {
			return err
		}
		return &jet.ServiceError{Code: codeOf(err), Message: err.Error()}
	})
}

// alone is a fold of the log as the read model of a [Service]. It knows one moment.
type alone struct{ view.Folded }

func (a alone) at() uint64 {
	p, _ := a.Point(context.Background()) // it is in memory
	return p.Seq
}

// Reached implements [Model].
func (a alone) Reached() uint64 { return a.at() }

// Wait implements [Model].
func (a alone) Wait(_ context.Context, seq uint64) error {
	if at := a.at(); seq > at {
		return badRequest{fmt.Errorf("this is as of sequence %d, not of %d", at, seq)}
	}
	return nil
}

// News implements [Model].
func (a alone) News(ctx context.Context, _ uint64) error {
	<-ctx.Done()
	return ctx.Err()
}

// Ends implements [Model].
func (a alone) Ends(ctx context.Context, ids []task.ID) (map[task.ID]task.End, uint64, error) {
	states, err := a.States(ctx, ids)
	ends := map[task.ID]task.End{}
	for id, state := range states {
		ends[id] = task.End{State: state}
	}
	return ends, a.at(), err
}

// At implements [Model].
func (a alone) At(view.Point, projections.Log) view.Whole { return a.Folded }
