// Clang's front end alone, for OpenCL C: what Spirula calls of a clang (`-cc1 … -emit-llvm-bc`), as one small program to link
// LLVM's and clang's archives into. The package spirula-clang has it where no system's clang 22 is to be had.

#include "clang/Basic/Diagnostic.h"
#include "clang/Basic/Version.h"
#include "clang/CodeGen/CodeGenAction.h"
#include "clang/Frontend/CompilerInstance.h"
#include "clang/Frontend/CompilerInvocation.h"
#include "clang/Frontend/TextDiagnosticBuffer.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Plugins/PassPlugin.h"
#include "llvm/Support/VirtualFileSystem.h"
#include "llvm/Support/raw_ostream.h"

// Debian's clang has Polly among its passes. Here no pass ever runs (-disable-llvm-passes), and nothing registers any.
llvm::PassPluginLibraryInfo getPollyPluginInfo() {
    return {LLVM_PLUGIN_API_VERSION, "no Polly", "", [](llvm::PassBuilder &) {}};
}

static int translate(llvm::ArrayRef<const char *> arguments, const char *program) {
    // Complaints about the arguments wait until the arguments say how complaints are to look.
    auto *waiting = new clang::TextDiagnosticBuffer;
    clang::DiagnosticOptions options;
    clang::DiagnosticsEngine early(clang::DiagnosticIDs::create(), options, waiting);
    auto invocation = std::make_shared<clang::CompilerInvocation>();
    bool understood = clang::CompilerInvocation::CreateFromArgs(*invocation, arguments, early, program);

    clang::CompilerInstance compiler(std::move(invocation));
    compiler.createVirtualFileSystem(llvm::vfs::getRealFileSystem(), waiting);
    compiler.createDiagnostics();
    waiting->FlushDiagnostics(compiler.getDiagnostics());
    if (!understood || compiler.getDiagnostics().hasErrorOccurred()) return 1;
    if (compiler.getFrontendOpts().ProgramAction != clang::frontend::EmitBC) {
        llvm::errs() << program << ": writes bitcode only (-emit-llvm-bc)\n";
        return 1;
    }
    clang::EmitBCAction action;
    return compiler.ExecuteAction(action) ? 0 : 1;
}

int main(int count, char **words) {
    llvm::ArrayRef<const char *> arguments(words + 1, count > 0 ? count - 1 : 0);
    if (arguments.size() == 1 && llvm::StringRef(arguments[0]) == "--version") {
        llvm::outs() << clang::getClangFullVersion() << " (OpenCL C to SPIR only, for Spirula)\n";
        return 0;
    }
    if (arguments.empty() || llvm::StringRef(arguments[0]) != "-cc1") {
        llvm::errs() << "this is clang's front end for Spirula: it knows -cc1 and --version\n";
        return 1;
    }
    return translate(arguments.drop_front(), words[0]);
}
