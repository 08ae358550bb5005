package daemon

import (
	"bytes"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

func TestACertificateIsWarnedOfOnceADay(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	own := pki.Certificate{Identity: pki.Identity{Role: pki.Node, Name: "n1"}, NotAfter: now.Add(31 * 24 * time.Hour)}
	var w certificateWarner
	for hour := range 5 * 24 {
		w.look(now.Add(time.Duration(hour)*time.Hour), own, nil, log)
	}
	require.Equal(t, 4, strings.Count(out.String(), "about to expire"), "from the second day on")
	out.Reset()
	renewed := own
	renewed.NotAfter = own.NotAfter.Add(90 * 24 * time.Hour)
	later := now.Add(5 * 24 * time.Hour)
	w.look(later, renewed, nil, log)
	require.Empty(t, out.String())
	w.look(later, own, nil, log)
	require.Contains(t, out.String(), "node/n1", "at once, and not a day after the last")
	out.Reset()
	short := pki.Certificate{Issued: later, NotAfter: later.Add(24 * time.Hour)}
	w.look(later, short, nil, log)
	require.Empty(t, out.String(), "it was just issued for a day")
	w.look(later.Add(17*time.Hour), short, nil, log)
	require.Contains(t, out.String(), "about to expire")
}

func TestFilesThatAreRefusedAreSaidOnce(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	own := pki.Certificate{NotAfter: time.Now().Add(1000 * time.Hour)}
	var w certificateWarner
	for _, err := range []error{errors.New("n1.crt is half written"), errors.New("n1.crt is half written"), nil, errors.New("n1.crt is half written")} {
		w.look(time.Now(), own, err, log)
	}
	require.Equal(t, 2, strings.Count(out.String(), "half written"))
}

func TestTheExpiryIsExported(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, pki.MakeCA(filepath.Join(dir, "ca"), "one"))
	files, err := pki.Issue(filepath.Join(dir, "ca"), filepath.Join(dir, "out"), pki.Identity{Role: pki.Node, Name: "n1"}, time.Hour)
	require.NoError(t, err)
	creds, err := pki.Load(files)
	require.NoError(t, err)
	registry := prometheus.NewRegistry()
	require.NoError(t, WatchCertificate(t.Context(), creds, registry, slog.New(slog.DiscardHandler)))
	expiry := func() float64 {
		families, err := registry.Gather()
		require.NoError(t, err)
		require.Equal(t, "holdfast_certificate_expiry_timestamp_seconds", families[0].GetName())
		require.Equal(t, "node/n1", families[0].GetMetric()[0].GetLabel()[0].GetValue())
		return families[0].GetMetric()[0].GetGauge().GetValue()
	}
	require.Equal(t, float64(creds.Certificate().NotAfter.Unix()), expiry())
	_, err = pki.Issue(filepath.Join(dir, "ca"), filepath.Join(dir, "out"), pki.Identity{Role: pki.Node, Name: "n1"}, 9*time.Hour)
	require.NoError(t, err)
	families, err := registry.Gather()
	require.NoError(t, err)
	require.Equal(t, "holdfast_certificate_issued_timestamp_seconds", families[1].GetName())
	require.InDelta(t, time.Now().Unix(), families[1].GetMetric()[0].GetGauge().GetValue(), 600)
	require.InDelta(t, time.Now().Add(9*time.Hour).Unix(), expiry(), 600, "of the files that are there now")
}
