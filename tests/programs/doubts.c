// Procedures of which annotate must not say too much. Recordings of them are made up, so that nothing needs to run. x86-64 only.

// Each load needs the one before: how long it takes, nobody can see in the code.
__asm__(".globl chase\n.type chase,@function\n"
        "chase: mov (%rdi),%rdi\n dec %rsi\n jne chase\n ret\n.size chase,.-chase\n");

// A counter in memory: fast, unless another processor writes to its line.
__asm__(".globl bump\n.type bump,@function\n"
        "bump: addq $1,(%rdi)\n dec %rsi\n jne bump\n ret\n.size bump,.-bump\n");

// The same on the stack, which other threads do not write to.
__asm__(".globl bump_own\n.type bump_own,@function\n"
        "bump_own: addq $1,-8(%rsp)\n dec %rsi\n jne bump_own\n ret\n.size bump_own,.-bump_own\n");

// A repeated instruction: one execution copies many bytes.
__asm__(".globl copy\n.type copy,@function\n"
        "copy: mov $100,%ecx\n rep movsb\n dec %rdx\n jne copy\n ret\n.size copy,.-copy\n");

// An interpreter: each handler jumps to the next by a table that the code does not show.
__asm__(".globl interpret\n.type interpret,@function\n"
        "interpret: movzbl (%rdi),%eax\n inc %rdi\n jmp *(%rsi,%rax,8)\n"
        " add $1,%rdx\n movzbl (%rdi),%eax\n inc %rdi\n jmp *(%rsi,%rax,8)\n"
        " add %rdx,%rcx\n movzbl (%rdi),%eax\n inc %rdi\n jmp *(%rsi,%rax,8)\n"
        " mov %rcx,%rax\n ret\n.size interpret,.-interpret\n");

int main(void) {
    return 0;
}
