package cli

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/cmd/exit"
)

func TestTheOldCAIsDroppedWhenNobodyUsesIt(t *testing.T) {
	of := func(issuer string) *adminpb.Certificate {
		return &adminpb.Certificate{Role: "node", Name: "n1", Serial: "aa", Issuer: issuer, SeenBy: []string{"c1"}}
	}
	for name, tc := range map[string]struct {
		seen *adminpb.CertificatesResponse
		code int
		want string
	}{
		"all are the new one's": {&adminpb.CertificatesResponse{Certificates: []*adminpb.Certificate{of("new"), of("new")}}, exit.OK, ""},
		"one is not":            {&adminpb.CertificatesResponse{Certificates: []*adminpb.Certificate{of("new"), of("old")}}, exit.Refused, "node/n1 is another CA's, and in use at c1"},
		"one was not asked":     {&adminpb.CertificatesResponse{Unknown: []string{"c2: gone"}}, exit.Unavailable, "c2: gone"},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkIssuer(tc.seen, "new")
			require.Equal(t, tc.code, exit.Code(err))
			require.Contains(t, exit.Line(err), tc.want)
		})
	}
}
