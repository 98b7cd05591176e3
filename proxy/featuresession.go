package proxy

import (
	"time"

	"github.com/sluice-proxy/sluice/proxy/access"
	"github.com/sluice-proxy/sluice/proxy/feature"
	"github.com/sluice-proxy/sluice/proxy/silent"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// featureSession implements feature.Session, by which features such as package copyin use a session. It has the size
// of a pointer, so that converting it to the interface allocates nothing.
type featureSession struct{ s *session }

func (f featureSession) InBlock() bool { return f.s.inBlock() }
func (f featureSession) IsFirstStatement() bool {
	return !f.s.t.touched && !f.s.t.request.executed && !f.s.t.request.ranLocal
}

func (f featureSession) RefusesWrite(st *rewrite.Statement) *wire.Error {
	if at := f.s.blockForNextStatement(); !at.IsReadOnly() {
		return nil
	}
	return access.WriteError(st, access.ReadOnly)
}

func (f featureSession) OptsOut(sql []byte) bool {
	return f.s.optedOut || f.s.t.nested.optsOut || f.s.srv.pool.replays != nil && retry.HasNoRetryComment(sql)
}

func (f featureSession) Setting(name string) string {
	value := f.s.settings.InForce.SQL[name]
	for _, change := range f.s.settings.Staged.Changes {
		if change.Name == name {
			value = change.SQL
		}
	}
	return value
}

func (f featureSession) Reading() rewrite.ReadingMode         { return f.s.textReadingMode() }
func (f featureSession) Names() (*schema.NameResolver, error) { return f.s.namesForNextText(nil) }

func (f featureSession) Reply(frames ...[]byte) error { return f.s.queueReply(frames...) }
func (f featureSession) Flush() error                 { return f.s.flushToClient() }

// NextFrame returns the client's next frame for a feature, such as package copyin. A cancel ends the wait. NextFrame
// calls Waits.Begin, because an earlier nested turn (by which the feature ran a statement) has switched cancels off.
func (f featureSession) NextFrame() (typ byte, total int, err error) {
	f.s.waits.Begin(f.s.settings.StatementTimeout())
	defer f.beginFeatureRead()()
	typ, total, err = f.s.nextFrame()
	if err != nil {
		return 0, 0, err
	}
	err = f.s.waits.CheckInterruption()
	f.s.waits.Consume(err)
	return typ, total, err
}

// beginFeatureRead lets cancels end a feature's waits for the client, until the caller calls end.
func (f featureSession) beginFeatureRead() (end func()) {
	t := f.s.t
	t.request.featureReads = true
	return func() { t.request.featureReads = false }
}

func (f featureSession) ReadWhole(total int) ([]byte, error) {
	defer f.beginFeatureRead()()
	return f.s.readWholeFrame(total)
}

func (f featureSession) Discard(n int) error {
	defer f.beginFeatureRead()()
	return f.s.discardBytes(n)
}

// ReadPayload calls the function take with a frame's payload, piece by piece. Until it ends, midClient is set: the
// client's next bytes are the rest of a frame, which nested turns (by which the feature runs statements) must know.
func (f featureSession) ReadPayload(total int, take func(piece []byte) error) error {
	s := f.s
	s.client.Advance(wire.HeaderLen)
	defer f.beginFeatureRead()()
	defer func() { s.t.request.midClient = false }()
	for n := total - wire.HeaderLen; n > 0; {
		k := min(n, s.client.Buffered())
		if k == 0 {
			if err := s.fillClientBuffer(); err != nil {
				return err
			}
			continue
		}
		piece := s.client.Peek(k)
		s.client.Advance(k)
		n -= k
		s.t.request.midClient = n > 0
		if err := take(piece); err != nil {
			if isRefusal(err) {
				if derr := s.discardBytes(n); derr != nil {
					return derr
				}
			}
			return err
		}
	}
	return nil
}

func (f featureSession) ProtocolError(e *wire.Error) error { return f.s.endOnProtocolError(e) }

func (f featureSession) ChargeMemory(bytes int) error {
	if full := f.s.charge.feature.TrySet(&f.s.memory.account, bytes); full != nil {
		return errOutOfMemory(full)
	}
	return nil
}

func (f featureSession) RunNested(sql string, how feature.NestedOptions) (feature.NestedResult, error) {
	return f.s.runNestedQuery(sql, nestedTurn{hiddenAnswer: silent.NewAnswer(how.Want), outsideBlock: how.Outside, optsOut: how.OptsOut})
}

func (f featureSession) RunTxCommand(sql string, want silent.ExpectedAnswer) (feature.NestedResult, error) {
	end, err := f.s.runSilentCommand(sql, want)
	if end.Err == nil && end.Stopped != nil {
		f.s.t.request.pendingCancel, end.Stopped = end.Stopped, nil
	}
	return end, err
}

func (f featureSession) BeginStatement() { f.s.waits.Begin(f.s.settings.StatementTimeout()) }
func (f featureSession) EndStatement()   { f.s.waits.Abandon() }

func (f featureSession) CheckMayContinue() error {
	err := f.s.checkMayContinue()
	f.s.waits.Consume(err)
	return err
}

func (f featureSession) Pause(d time.Duration) error {
	err := f.s.sleepUnlessStopped(d)
	f.s.waits.Consume(err)
	return err
}
