package exit

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestExitCodes(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		code int
		line string
	}{
		"nothing went wrong":            {nil, 0, ""},
		"any error is a no":             {errors.New("refused"), 1, "refused"},
		"usage":                         {Usagef("--x %d", 1), 2, "--x 1"},
		"a code survives being wrapped": {fmt.Errorf("start: %w", Unavailablef("no quorum")), 3, "start: no quorum"},
		"unavailable over gRPC":         {status.Error(codes.Unavailable, "no leader"), 3, "no leader"},
		"a deadline over gRPC":          {status.Error(codes.DeadlineExceeded, "late"), 3, "late"},
		"an argument refused over gRPC": {status.Error(codes.InvalidArgument, "bad id"), 2, "bad id"},
		"a refusal over gRPC":           {status.Error(codes.NotFound, "no volume"), 1, "no volume"},
		"silence":                       {Silent(3), 3, ""},
		"what a terminal would obey":    {errors.New("host \x1b]0;x\a\u009b2J says ä"), 1, "host  ]0;x  2J says ä"},
		"several lines become one":      {errors.Join(errors.New("a"), errors.New("b")), 1, "a; b"},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				require.Equal(t, tc.code, Code(tc.err))
				require.Equal(t, tc.line, Line(tc.err))
			}
		})
	}
}
