package rpcerr

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/raftnode"
)

type noQuorum struct{ cause error }

func (noQuorum) Error() string     { return "no quorum" }
func (noQuorum) Unavailable() bool { return true }
func (n noQuorum) Unwrap() error   { return n.cause }

// TestEveryReasonHasACode counts the reasons in the source, so that a new one
// cannot be added without a code.
func TestEveryReasonHasACode(t *testing.T) {
	reasons := reasonsInSource(t)
	require.Len(t, codeOf, reasons)
	for reason := fsm.Reason(1); int(reason) <= reasons; reason++ {
		code, known := codeOf[reason]
		require.True(t, known, "reason %d has no code", reason)
		require.Equal(t, code, canonical(code))
	}
}

// reasonsInSource counts the constants that follow NotFound in its block.
func reasonsInSource(t *testing.T) int {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../fsm/rejection.go", nil, 0)
	require.NoError(t, err)
	count := 0
	for _, decl := range file.Decls {
		if block, ok := decl.(*ast.GenDecl); ok && block.Tok == token.CONST {
			count += len(block.Specs)
		}
	}
	require.Positive(t, count)
	return count
}

// CSI-GEN-Error-01..04, -08, CSI-CTRL-*: the code of each kind of error.
func TestFrom(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want codes.Code
	}{
		"a rejection has its reason's code":            {fsm.Reject(fsm.InUse, "volume v"), codes.FailedPrecondition},
		"a wrapped rejection too":                      {fmt.Errorf("create: %w", fsm.Reject(fsm.NoCapacity, "no pool")), codes.ResourceExhausted},
		"an unknown reason is a bug":                   {fsm.Reject(9999, "from the future"), codes.Internal},
		"no leader is unavailable (S28)":               {raftnode.ErrNotLeader, codes.Unavailable},
		"an unknown outcome is unavailable":            {fmt.Errorf("propose: %w", raftnode.ErrOutcomeUnknown), codes.Unavailable},
		"shutting down is unavailable":                 {raftnode.ErrShutdown, codes.Unavailable},
		"S28: a full Raft disk is not exhausted":       {raftnode.ErrDiskFull, codes.Unavailable},
		"anything that says so is unavailable":         {fmt.Errorf("stage: %w", noQuorum{}), codes.Unavailable},
		"S28: also where a deadline is near":           {noQuorum{cause: context.DeadlineExceeded}, codes.Unavailable},
		"a deadline aborts":                            {fmt.Errorf("mkfs: %w", context.DeadlineExceeded), codes.Aborted},
		"a caller that went away":                      {context.Canceled, codes.Canceled},
		"a status keeps its code":                      {status.Error(codes.OutOfRange, "too big"), codes.OutOfRange},
		"a status that is no canonical code is a bug":  {status.Error(77, "odd"), codes.Internal},
		"anything else is a bug or a broken host":      {errors.New("mount: exit 32"), codes.Internal},
		"an error without a text still has a message":  {errors.New(""), codes.Internal},
		"an error with control characters is readable": {errors.New("a\x00b\nc"), codes.Internal},
	} {
		t.Run(name, func(t *testing.T) {
			once := From(tc.err)
			for _, err := range []error{once, From(once)} { // asked twice, the same
				got, isStatus := status.FromError(err)
				require.True(t, isStatus)
				require.Equal(t, tc.want, got.Code())
				require.NotEmpty(t, got.Message())
				require.NotContains(t, got.Message(), "rpc error")
				require.Empty(t, got.Details())
			}
			require.Equal(t, once.Error(), From(once).Error())
		})
	}
}

func TestFromLeavesNilAlone(t *testing.T) {
	require.NoError(t, From(nil))
}

// ADD-RS-ControllerReclaimSpace-13, ADD-RS-NodeReclaimSpace-18: UNKNOWN only where nothing else is known.
func TestOrUnknown(t *testing.T) {
	require.NoError(t, OrUnknown(nil))
	for err, want := range map[error]codes.Code{
		errors.New("mount: exit 32"):          codes.Unknown,
		fsm.Reject(fsm.NotFound, "no"):        codes.NotFound,
		status.Error(codes.Internal, "a bug"): codes.Unknown,
		status.Error(codes.Aborted, "later"):  codes.Aborted,
	} {
		require.Equal(t, want, status.Code(OrUnknown(err)))
		require.Equal(t, status.Convert(From(err)).Message(), status.Convert(OrUnknown(err)).Message())
	}
}

// CSI-GEN-Size-05: what is sent stays within its limit.
func TestAMessageIsBounded(t *testing.T) {
	got := status.Convert(From(errors.New(strings.Repeat("x", 5000)))).Message()
	require.Equal(t, strings.Repeat("x", maxMessage-3)+"...", got)
}

// S40, ADD-REPL-Promote-16: of all reasons there are, two are FAILED_PRECONDITION of a promotion.
func TestS40_TwoReasonsAreAnsweredWithForce(t *testing.T) {
	for reason := fsm.Reason(1); int(reason) <= reasonsInSource(t)+1; reason++ {
		err := fmt.Errorf("promote: %w", fsm.Reject(reason, "why"))
		want := status.Code(OrUnknown(err))
		answered := reason == fsm.NotReplicated || reason == fsm.NeedsForce
		if want == codes.FailedPrecondition && !answered {
			want = codes.Aborted
		}
		require.Equal(t, want, status.Code(Promote(err)), reason)
		require.Equal(t, answered, status.Code(Promote(err)) == codes.FailedPrecondition, reason)
		require.Contains(t, status.Convert(Promote(err)).Message(), "why")
	}
	require.NoError(t, Promote(nil))
	require.Equal(t, codes.Aborted, status.Code(Promote(status.Error(codes.FailedPrecondition, "a host's"))))
	require.Equal(t, codes.Unknown, status.Code(Promote(errors.New("a bug"))))
	require.Equal(t, codes.Unavailable, status.Code(Promote(raftnode.ErrNotLeader)))
	require.Equal(t, codes.Aborted, status.Code(Promote(context.DeadlineExceeded)))
}
