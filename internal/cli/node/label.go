package node

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"millrace/internal/cli/exit"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/wording"
	"millrace/service/client"
	"millrace/task/node"
	"millrace/task/placement"
)

func (a *Commands) nodeLabel() *cobra.Command {
	var o settings.Output
	var reason string
	c := &cobra.Command{
		Use: "label NAME [KEY=VALUE|KEY-]...", Short: "Change labels of a node, by which tasks choose it",
		Long: `Changes labels of a node: KEY=VALUE sets one, KEY- removes it. The change survives restarts of
the worker, whatever labels it is started with. Tasks that wait for such a label start at
once; running tasks go on.`,
		Example: "  millrace node label crawler-7 zone=eu gpu- --reason \"moved\"",
		Args:    settings.Takes(1, -1, "node"), ValidArgsFunction: a.CompleteNodes,
	}
	c.Flags().StringVar(&reason, "reason", "", "why, in `words`; the log keeps them")
	o.Flags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		changes, err := labelChanges(args[1:])
		if err != nil {
			return exit.Misuse(c, "%w", err)
		}
		if len(changes) == 0 {
			return exit.Misuse(c, "name at least one label: KEY=VALUE sets it, KEY- removes it")
		}
		return a.onNode(func(ctx context.Context, cl *client.Client, id node.ID) error {
			asking, cancel := a.Asking(ctx)
			defer cancel()
			n, err := cl.LabelNode(asking, id, changes, reason)
			if err != nil {
				return err
			}
			if o.JSON() {
				return a.sayNode(ctx, cl, n, -1, &o)
			}
			_, err = fmt.Fprintln(a.Out, wording.Words(string(n.ID), wording.Pairs(n.Labels)))
			return err
		})(c, args[:1])
	}
	return c
}

// labelChanges parses KEY=VALUE, which sets a label, and KEY-, which removes it: nil.
func labelChanges(args []string) (map[string]*string, error) {
	changes := map[string]*string{}
	for _, arg := range args {
		set := map[string]*string{}
		if name, removes := strings.CutSuffix(arg, "-"); removes && name != "" && !strings.Contains(arg, "=") {
			set[name] = nil
		} else if labels, err := placement.ParseLabels([]string{arg}); err != nil {
			return nil, fmt.Errorf("%w, or NAME- to remove it", err)
		} else {
			for name, value := range labels {
				set[name] = &value
			}
		}
		for name, value := range set {
			if _, twice := changes[name]; twice {
				return nil, fmt.Errorf("label %s is there twice", name)
			}
			changes[name] = value
		}
	}
	return changes, nil
}
