package main

import (
	"github.com/spf13/cobra"

	"millrace/cmd/millrace/told"
	"millrace/cmd/millrace/typed"
	"millrace/httpapi"
)

func (a *app) apiCommand() *cobra.Command {
	c := typed.Noun(&cobra.Command{
		Use:   "api",
		Short: "Requests and answers of the service over HTTP",
	})
	c.AddCommand(&cobra.Command{
		Use:   "openapi",
		Short: "Print the OpenAPI document of the service over HTTP",
		Long: `Prints the OpenAPI 3.1 document of the service over HTTP, as a server of this version
has it at /openapi.json: every request with its fields, every answer, every problem.`,
		Args: typed.Takes(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			return a.WriteJSON(httpapi.Document(told.ThisBuild().Version))
		},
	})
	return c
}
