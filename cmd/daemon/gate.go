package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// Verdict is the answer of a gate, as it is written.
type Verdict struct {
	Safe bool `json:"safe"`
	// Subject is what may be stopped: the node or the controller.
	Subject string `json:"subject"`
	// Index is that of the log at which it was decided.
	Index uint64 `json:"index"`
	// Reasons say why not.
	Reasons []string `json:"reasons"`
	// InMaintenance are the other hosts that may go down at any moment.
	InMaintenance []string `json:"in_maintenance,omitempty"`
	// Claimed is the index at which the host was recorded to go down.
	Claimed uint64 `json:"claimed,omitempty"`
}

// Gate is a question that a job asks before it stops something: GET on Path answers 200 where it may, 409 with the reasons
// where it may not, 503 where nobody can tell, 400 where the question has a parameter that is not known or no boolean, and
// 403 where it would change something and did not come over loopback.
type Gate struct {
	Path string
	// Parameters are the names of the booleans that the question may have. With one of Changes, which are further ones, it
	// writes the log.
	Parameters, Changes []string
	Decide              func(ctx context.Context, asked map[string]bool) (Verdict, error)
}

// gateTimeout bounds an answer.
const gateTimeout = 20 * time.Second

// ServeHTTP implements http.Handler.
func (g Gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	asked, err := g.read(r.URL.Query())
	if err != nil {
		writeJSON(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
		return
	}
	if name := g.changeIn(asked); name != "" && !fromLoopback(r) {
		writeJSON(w, http.StatusForbidden, map[string]string{"error": fmt.Sprintf("%s=1 changes something: it is answered over loopback on this host only; nothing was changed", name)})
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), gateTimeout)
	defer cancel()
	verdict, err := g.Decide(ctx, asked)
	switch {
	case err != nil:
		writeJSON(w, http.StatusServiceUnavailable, map[string]string{"error": err.Error()})
	case !verdict.Safe:
		writeJSON(w, http.StatusConflict, verdict)
	default:
		verdict.Reasons = []string{}
		writeJSON(w, http.StatusOK, verdict)
	}
}

// changeIn is a parameter with which the question writes the log; empty: it only asks.
func (g Gate) changeIn(asked map[string]bool) string {
	for _, name := range g.Changes {
		if asked[name] {
			return name
		}
	}
	return ""
}

// read reads the parameters; one that was misspelt must not be taken for one that was not given.
func (g Gate) read(query url.Values) (map[string]bool, error) {
	asked := map[string]bool{}
	for _, name := range slices.Concat(g.Parameters, g.Changes) {
		if values, given := query[name]; given {
			value, err := strconv.ParseBool(values[0])
			if err != nil {
				return nil, fmt.Errorf("read %s: %s is not a boolean: say 1 or 0", g.Path, name)
			}
			asked[name] = value
			query.Del(name)
		}
	}
	for name := range query {
		return nil, fmt.Errorf("read %s: there is no parameter %q", g.Path, name)
	}
	return asked, nil
}

func writeJSON(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // the client may have disconnected
}
