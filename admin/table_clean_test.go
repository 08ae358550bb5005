package admin

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// What others wrote, such as a reason, a name or an error, commands no terminal and makes no line of its own.
func TestTextsOfOthersCommandNoTerminal(t *testing.T) {
	const text = "a\x1b[2Jb\r\nc\u009b2Jd\u202ee\xff"
	step := &adminpb.PlanStep{State: "todo", Detail: text}
	for name, answer := range map[string]proto.Message{
		"history":      &adminpb.HistoryEntry{Index: 1, Actor: text, Node: text, Command: &fsmpb.Command{Call: &fsmpb.OperatorCall{Reason: text, Plan: text}}},
		"a gap":        &adminpb.HistoryEntry{Gap: true, Why: text},
		"a plan":       &adminpb.PlanResponse{Summary: text, Steps: []*adminpb.PlanStep{step}},
		"a list":       &adminpb.TokensResponse{Tokens: []*adminpb.Token{{Id: text, Name: text}}},
		"doctor":       &adminpb.DoctorResponse{Findings: []*adminpb.Diagnosis{{Subject: text, Found: text, Remedy: text}}},
		"a token":      &adminpb.TokenPlanResponse{Summary: text, Steps: []*adminpb.PlanStep{step}},
		"verification": &adminpb.VerifyHistoryResponse{Member: text, Breaks: []*adminpb.HistoryBreak{{What: text}}},
		"a change":     &adminpb.ChangeResponse{Message: text},
		"certificates": &adminpb.CertificatesResponse{Revocations: []*adminpb.Revocation{{Role: "node", Name: "n1", Reason: text}}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, format := range []string{"table", "wide"} {
				var out bytes.Buffer
				require.NoError(t, Print(&out, format, answer))
				require.NotContains(t, out.String(), "\x1b")
				require.NotContains(t, out.String(), "\r")
				require.NotContains(t, out.String(), "\u009b")
				require.NotContains(t, out.String(), "\u202e")
				for line := range strings.Lines(out.String()) {
					require.False(t, strings.HasPrefix(line, "c"), "a line of its own: %q", out.String())
				}
			}
		})
	}
}
