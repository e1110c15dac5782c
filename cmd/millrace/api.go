package main

import (
	"github.com/spf13/cobra"

	"millrace/internal/cli/settings"
	"millrace/internal/cli/wording"
	"millrace/service/httpapi"
)

func (a *app) apiCommand() *cobra.Command {
	c := settings.Noun(&cobra.Command{
		Use:   "api",
		Short: "Requests and answers of the service over HTTP",
	})
	c.AddCommand(&cobra.Command{
		Use:   "openapi",
		Short: "Print the OpenAPI document of the service over HTTP",
		Long: `Prints the OpenAPI 3.1 document of the service over HTTP, as a server of this version
has it at /openapi.json: every request with its fields, every answer, every problem.`,
		Args: settings.Takes(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			return a.WriteJSON(httpapi.Document(wording.ThisBuild().Version))
		},
	})
	return c
}
