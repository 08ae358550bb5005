package node

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor/session"
	"github.com/holdfast-storage/holdfast/fsm"
)

func TestTheRebootGateAsksTheControllers(t *testing.T) {
	for name, tc := range map[string]struct {
		query  string
		answer fsm.StopAnswer
		err    error
		asks   session.RebootQuestion
		code   int
		body   string
	}{
		"it may": {answer: fsm.StopAnswer{Index: 7, Safe: true}, code: http.StatusOK, body: `{"safe":true,"subject":"node n1","index":7,"reasons":[]}`},
		"it may, and is recorded": {query: "?claim=1", answer: fsm.StopAnswer{Index: 8, Safe: true, Claimed: 8, InMaintenance: []string{"n3"}},
			asks: session.RebootQuestion{Claim: true}, code: http.StatusOK, body: `{"safe":true,"subject":"node n1","index":8,"reasons":[],"in_maintenance":["n3"],"claimed":8}`},
		"it may not": {query: "?allow-unused=true", answer: fsm.StopAnswer{Index: 7, Reasons: []string{"why"}},
			asks: session.RebootQuestion{AllowUnused: true}, code: http.StatusConflict, body: `{"safe":false,"subject":"node n1","index":7,"reasons":["why"]}`},
		"the end of a claim": {query: "?release=1&claim=0", answer: fsm.StopAnswer{Index: 7, Safe: true}, asks: session.RebootQuestion{Release: true}, code: http.StatusOK,
			body: `{"safe":true,"subject":"node n1","index":7,"reasons":[]}`},
		"nobody can tell": {err: errors.New("no quorum"), code: http.StatusServiceUnavailable, body: `{"error":"no quorum"}`},
	} {
		t.Run(name, func(t *testing.T) {
			gate := rebootGate("n1", func(_ context.Context, q session.RebootQuestion) (fsm.StopAnswer, error) {
				require.Equal(t, tc.asks, q)
				return tc.answer, tc.err
			})
			for range 2 {
				w := httptest.NewRecorder()
				r := httptest.NewRequest(http.MethodGet, gate.Path+tc.query, nil)
				r.RemoteAddr = "127.0.0.1:4000"
				gate.ServeHTTP(w, r)
				require.Equal(t, tc.code, w.Code)
				require.JSONEq(t, tc.body, w.Body.String())
			}
		})
	}
}

// A pod that reaches the listener may ask, and neither claims nor releases.
func TestTheRebootGateChangesNothingForOtherHosts(t *testing.T) {
	gate := rebootGate("n1", func(_ context.Context, q session.RebootQuestion) (fsm.StopAnswer, error) {
		require.Equal(t, session.RebootQuestion{}, q)
		return fsm.StopAnswer{Index: 7, Safe: true}, nil
	})
	for query, code := range map[string]int{"": http.StatusOK, "?claim=1": http.StatusForbidden, "?release=1": http.StatusForbidden} {
		for range 2 {
			w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, gate.Path+query, nil)
			r.RemoteAddr = "10.1.2.3:4000"
			gate.ServeHTTP(w, r)
			require.Equal(t, code, w.Code, query)
		}
	}
}
