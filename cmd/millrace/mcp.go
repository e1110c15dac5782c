package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"millrace/events/jet/rights"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/service/client"
	"millrace/service/httpapi"
)

func (a *app) mcpCommand() *cobra.Command {
	role := settings.Choice{Value: string(rights.Operator), Of: []string{string(rights.Viewer), string(rights.Submitter), string(rights.Operator)}}
	c := &cobra.Command{
		Use:   "mcp",
		Short: "Let an assistant ask, by MCP on stdin and stdout; needs a millrace server",
		Long: `Speaks the Model Context Protocol on stdin and stdout, until stdin ends. An assistant starts it.
Its tools look at tasks, jobs, schedules, nodes and the log, and run jobs with their parameters. None changes
anything else, and none runs a command that is not in a job. Whatever is done is done as your user.

A server with --http answers assistants at /mcp, too, with tokens.`,
		Example: `  millrace mcp --role viewer
  claude mcp add millrace -- millrace mcp --role viewer`,
		Args: settings.Takes(0, 0, ""),
	}
	c.Flags().Var(&role, "role", "what the assistant may, at most: look (viewer), run jobs (submitter), or both (operator)")
	c.RunE = a.Online(func(ctx context.Context, cl *client.Client, _ []string) error {
		has := cl.Role()
		switch {
		case has == "":
			has = rights.Role(role.Value)
		case c.Flags().Changed("role") && role.Value != string(has):
			return term.MisuseOf(fmt.Errorf("--role is %s, and this user is a %s", role.Value, has))
		}
		return httpapi.TalkMCP(ctx, wording.ThisBuild().Version, a.In, a.Out, httpapi.Assistant{
			Name: cl.Store().Caller(), Role: has, Ask: func(ctx context.Context, verb rights.Verb, request json.RawMessage) (answer json.RawMessage, err error) {
				err = cl.Store().Ask(ctx, verb, request, &answer)
				return answer, err
			},
		})
	})
	return c
}
