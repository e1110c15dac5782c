package settings

import (
	"strings"

	"github.com/spf13/cobra"

	"millrace/internal/cli/term"
)

// Help differs from cobra's help command: it refuses unknown words.
func Help(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "Say more about a command or a page",
		RunE: func(c *cobra.Command, args []string) error {
			about, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return term.Misuse(c, "there is no help about %q; `millrace help` lists what there is", strings.Join(args, " "))
			}
			if about.DisableFlagParsing && about.RunE != nil { // another program does it, and says what
				return about.RunE(about, []string{"--help"})
			}
			about.InitDefaultHelpFlag() // so that it is shown
			return about.Help()
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			var names []string
			if about, rest, err := root.Find(args); err == nil && len(rest) == 0 {
				for _, c := range about.Commands() {
					if !c.IsAvailableCommand() && !c.IsAdditionalHelpTopicCommand() {
						continue
					}
					names = append(names, c.Name()+"\t"+c.Short)
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// UsageTemplate differs from cobra's: the flags that all commands have in common are shown once, by
// "millrace help connection".
const UsageTemplate = `{{if .HasAvailableSubCommands}}Usage:
  {{.CommandPath}} COMMAND{{else if .Runnable}}Usage:
  {{.UseLine}}{{end}}{{if gt (len .Aliases) 0}}

Aliases:
  {{.NameAndAliases}}{{end}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{if .HasAvailableSubCommands}}{{$cmds := .Commands}}{{if eq (len .Groups) 0}}

Commands:{{range $cmds}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{else}}{{range $group := .Groups}}

{{.Title}}{{range $cmds}}{{if (and (eq .GroupID $group.ID) (or .IsAvailableCommand (eq .Name "help")))}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{end}}{{end}}{{if and .HasAvailableLocalFlags .HasParent}}
{{flags .}}{{end}}{{if .HasHelpSubCommands}}

Pages:{{range .Commands}}{{if .IsAdditionalHelpTopicCommand}}
  help {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{if .HasAvailableSubCommands}}

"{{.CommandPath}} COMMAND --help" says more about a command.{{else if .Runnable}}

"{{.Root.Name}} help connection" lists the flags that say where the server is.{{end}}
`
