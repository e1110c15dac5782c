package httpapi

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"millrace/events/jet/rights"
	"millrace/service/answers"
)

// callerKey is where the context of a request has its caller.
type callerKey struct{}

// ServeMCP lets assistants ask a server over HTTP, with the credentials and the roles that it knows. There are
// no sessions: each request is a caller's own, so that a token that is removed ends with the next one.
func ServeMCP(s *Server) {
	handler := mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server {
		caller, _ := r.Context().Value(callerKey{}).(Caller) // the only way here
		c := &Assistant{Name: caller.Name, Role: caller.Role, Ask: func(ctx context.Context, verb rights.Verb, request json.RawMessage) (answer json.RawMessage, err error) {
			err = s.Desk.Ask(ctx, caller.Name, verb, request, &answer)
			if err != nil && answers.ProblemOf(err).Status == http.StatusInternalServerError {
				s.Log.Warn("a request of an assistant has failed", "error", err)
			}
			return answer, err
		}}
		return c.server(s.Version)
	}, &mcp.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true, PropagateRequestCancellation: true,
		MaxRequestBodyBytes:        answers.LargestRequest,
		DisableLocalhostProtection: true, // the server has looked at the name already, and knows more of them
	})
	s.Tools = func(w http.ResponseWriter, r *http.Request, c Caller) {
		handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, c)))
	}
}
