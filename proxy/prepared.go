package proxy

import (
	"github.com/sluice-proxy/sluice/proxy/account"
	"github.com/sluice-proxy/sluice/proxy/sqlerror"
	"github.com/sluice-proxy/sluice/proxy/statement"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file bounds the memory of prepared statements, and removes statements. Package statement has their types.
// templates.go makes templates and prepares them on backends. schema.go decides how long remembered facts are valid.
//
// A client's SQL texts can take more of Sluice's memory than anything else, by prepared names, portals, logs and the
// cache of templates. prepared.total_bytes limits all texts and descriptions. prepared.bytes_per_client limits the
// texts of one client's names.

// rememberedShare and backendsShare divide prepared.total_bytes. The cache of templates may use 1/rememberedShare,
// since the cache only saves round trips. The statements of all backends together may use 1/backendsShare.
const (
	rememberedShare = 8
	backendsShare   = 2
)

// checkTextFits returns the error of a Parse whose text exceeds the process's limit or, for a named statement, the
// client's limit. If memory is short, it refuses no text in a transaction, because the transaction must be able to
// end. A text that ends a block always fits.
func (s *session) checkTextFits(name []byte, t *statement.Template) error {
	ends := s.inBlock() && s.isAllowedInFailedBlock(t.Plan) && t.Cost <= 2*statement.TemplateCost
	if s.state == idle && s.srv.memory.IsShort() {
		return sqlerror.LowMemory
	}
	if full := s.memory.account.ExceededBound(account.Texts, t.Cost); len(name) > 0 && full != nil {
		if full.Key == textsKey {
			return sqlerror.ClientTextsTooLong(full.Limit)
		}
		return errOutOfMemory(full)
	}
	if !ends && !s.srv.pool.templates.EnsureRoom() {
		return sqlerror.TotalTextsTooLong(s.srv.cfg.PreparedTotalBytes)
	}
	return nil
}

// checkDescribeFits returns a Describe's error if its answer exceeds a memory limit. have is a cached answer or nil.
func (s *session) checkDescribeFits(t *statement.Template, have *statement.Description) error {
	switch full := s.memory.account.ExceededBound(account.Texts, 1); {
	case have != nil, s.isAllowedInFailedBlock(t.Plan):
		return nil
	case full != nil && full.Key == textsKey:
		return sqlerror.ClientTextsTooLong(full.Limit)
	case full != nil:
		return errOutOfMemory(full)
	case !s.srv.pool.templates.EnsureRoom():
		return sqlerror.TotalTextsTooLong(s.srv.cfg.PreparedTotalBytes)
	}
	return nil
}

// destroyUnnamedStatement removes the unnamed statement after Sluice refused a Parse of a new one, as a server does.
// If an earlier frame before the Sync fails, a server skips that Parse, and Sluice restores the statement.
func (s *session) destroyUnnamedStatement() {
	if s.statements.Find(nil) != nil && !s.t.owed.empty() {
		s.t.owed.addNameUndo("", s.statements.Find(nil))
	}
	s.statements.RemoveUnnamed()
}

// forgetStatements forgets the client's named statements for DEALLOCATE ALL, but not the unnamed one. It does not
// change the map of statements, because a localStateCopy may refer to it, but replaces it.
func forgetStatements(s *session) { s.statements.Replace(&s.memory.account, nil) }

// recordDeallocateAll forgets all prepared statements of the client and the backend, once the server has run DEALLOCATE
// ALL or DISCARD ALL.
func recordDeallocateAll(s *session, _ *pendingReply, st *rewrite.Statement, tag []byte) {
	if tag != nil && st != nil && (st.Does == rewrite.DeallocatesAll || hasChange(st, rewrite.DiscardAll)) {
		s.b.prepared.Clear()
		forgetStatements(s)
	}
}
