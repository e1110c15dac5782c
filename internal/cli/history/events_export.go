package history

import (
	"errors"

	"github.com/spf13/cobra"

	"millrace/events"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
)

func (a *Commands) eventsExport() *cobra.Command {
	var from, to uint64
	c := &cobra.Command{
		Use: "export", Aliases: []string{"dump"},
		Short: "Write the log, or a range of it, as lines of JSON",
		Long: `Writes every message of the log up to its present end to stdout, as a line of JSON:
seq, stored (when the log took it), kind (offer, hold, chain, node, other), subject,
and body, the message as it was written. A message that is no JSON object is in bytes, in
base64; one that is no event has error. "millrace verify --file" reads the export.`,
		Example: `  millrace events export > log.jsonl
  millrace events export --from 1000 --to 2000 | zstd > part.jsonl.zst`,
		Args: settings.Takes(0, 0, ""),
	}
	c.Flags().Uint64Var(&from, "from", 1, "begin at this `sequence`")
	c.Flags().Uint64Var(&to, "to", 0, "end at this `sequence` (default: the end of the log now)")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if to > 0 && to < from {
			return term.Misuse(c, "--to %d is before --from %d", to, from)
		}
		cl, err := a.Connect(c.Context())
		if err != nil {
			return err
		}
		defer cl.Close()
		imported, err := cl.Import(c.Context())
		if err != nil {
			return err
		}
		w, err := events.NewExportWriter(a.Out, events.ExportHeader{From: from, To: to, Import: imported})
		if err != nil {
			return err
		}
		return errors.Join(a.Span(c.Context(), cl, from, to, w.Write), w.Flush())
	}
	return c
}
